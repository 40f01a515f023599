"""A notebook a lab and language: the program (code), the pages (words), and what the cells gave when a GPU ran them.

The program is cut at its sections, and where a page explains a definition; the cells joined by two blank lines are the file, byte
for byte. Labs that start themselves as a child need that file, so a cell behind them writes it from the cells as they were run.

Only a run is stored: examples/results/<gpu>/<lab>.cells.json = {"measured": where and when, which measurement, "cells": {id: outputs}}.
It knows the program by its identity, so neither a comment of a lab nor a sentence of a page makes it another.
"""
import ast
import hashlib
import json
import re

from .errors import PageError
from .results import LARGEST, identity, strict_json

SUFFIX = ".cells.json"
GAP = "\n\n\n"                                             # between top-level definitions, and so between cells
PAGES = ("lesson", "roofline", "decode", "backward", "measured", "pitfalls")
WITHOUT_GPU = {"flash_vs_naive_memory"}                    # measures something else where there is no GPU
RUN = ("machine-code", "check-code", "measure-code", "values-code", "row-code")   # the cells whose outputs are kept
BESIDE = "beside-of-"   # the cells that write a program of the folder; what they say is not kept
KNOWN = ("gpu", "driver", "torch", "python", "date", "commit", "dirty", "source", "id", "seal")
PATHS = re.compile(r"(?<![\w.:/])/(?:tmp|home|root|usr|opt|work|mnt|var|Users|content|workspace)/|[A-Z]:\\|ipykernel_\d")


# What a run gave.

def load(folder, programs):
    """{(gpu, lab): run} of `<folder>/<gpu>/<lab>.cells.json`; each gains `stale`: the program measures something else now. Raises PageError naming the file."""
    found = {}
    for path in sorted(folder.glob(f"*/*{SUFFIX}")):
        where, lab = f"examples/results/{path.relative_to(folder).as_posix()}", path.name.removesuffix(SUFFIX)
        again = f"Run `make notebooks-run LAB={lab}` on a machine with a GPU."
        if f"{lab}.py" not in programs:
            raise PageError(f"{where}: there is no examples/{lab}.py that was run. Restore the program or remove the file.")
        try:
            run = strict_json(path.read_text("utf-8")) if path.stat().st_size <= LARGEST else None
        except (ValueError, RecursionError) as error:
            raise PageError(f"{where}{f':{error.lineno}' if hasattr(error, 'lineno') else ''}: not strict JSON: {str(error)[:300]}. {again}") from None
        if bad := problems(run):
            raise PageError(f"{where}: {'; '.join(bad)}. {again}")
        found[path.parent.name, lab] = {**run, "stale": run["measured"]["id"] != identity.identity(programs[f"{lab}.py"], programs)}
    return found


def problems(run):
    """What must not be in a run that is published, as lines: a cell without outputs or with an error, paths, outputs of another kind than text or edited since."""
    try:
        measured, cells = run["measured"], run["cells"]
        if set(measured) != set(KNOWN) or set(cells) != set(RUN):
            return [f"it must hold measured, with {', '.join(KNOWN)}, and the cells {', '.join(RUN)}"]
        found = [] if measured["seal"] == seal(run) else ["its outputs, or what is known of the run, were changed since"]
        for name, outputs in cells.items():
            if not outputs:
                found.append(f"cell {name} gave nothing")
            for output in outputs:
                if output["output_type"] == "error":
                    found.append(f"cell {name} raises {output['ename']}: {output['evalue']}")
                elif output["output_type"] not in ("stream", "execute_result") or set(output.get("data", {})) - {"text/plain"}:
                    found.append(f"cell {name} has an output that is not text")
            if match := PATHS.search(json.dumps(outputs, ensure_ascii=False).replace("\\n", "\n")):
                found.append(f"cell {name} has a path in its output: {match[0]}")
        return found
    except (TypeError, KeyError, AttributeError) as error:
        return [f"it is no run of a notebook ({type(error).__name__}: {error})"]


def seal(run):
    """sha256 of where and when a notebook was run and of what its cells gave."""
    measured = {name: value for name, value in run["measured"].items() if name != "seal"}
    return hashlib.sha256(json.dumps([measured, run["cells"]], ensure_ascii=False, sort_keys=True).encode()).hexdigest()


def as_text(run):
    """The file of a run: a line of text is a line of the file."""
    return json.dumps({"measured": run["measured"], "cells": run["cells"]}, indent=1, ensure_ascii=False) + "\n"


def run_of(notebook, measured):
    """What is kept of an executed notebook. Raises PageError for one with a cell that was not run in its turn, that raised, or that gave what it must not."""
    bad, cells = [], {}
    for number, cell in enumerate([cell for cell in notebook["cells"] if cell["cell_type"] == "code"], 1):
        outputs, name = cell["outputs"], cell["id"]
        bad += [f"cell {name} raises {output['ename']}: {output['evalue']}" for output in outputs if output["output_type"] == "error"]
        if cell["execution_count"] != number:
            bad.append(f"cell {name} was run as number {cell['execution_count']}, not {number}")
        elif name in RUN:
            cells[name] = [{key: value for key, value in output.items() if key != "execution_count"} for output in outputs]
        elif name == "write-code" and outputs != _written(measured["source"].rsplit("/", 1)[-1], program_of(notebook)):
            bad.append("cell write-code did not write the published program")
        elif outputs and name != "write-code" and not name.startswith(BESIDE):
            bad.append(f"cell {name} prints")
    run = {"measured": measured, "cells": cells}
    measured["seal"] = seal(run)
    if bad := bad or problems(run):
        raise PageError("; ".join(bad))
    return run


# The program, in cells.

def pieces(source):
    """[(title of the section or None, names of its definitions, code), …] of a program; the codes joined by GAP and ended by a line end are it."""
    if not source.endswith("\n") or source.endswith("\n\n") or "\r" in source:
        raise PageError("the program must end in one line end, and have no carriage returns. .gitattributes asks git for LF: `git rm --cached -rq . && git reset --hard` checks all files out anew.")
    return [(_title(block), _names(block), block) for block in source[:-1].split(GAP)]


def cells_of(source, explained):
    """[(title or None, name of the first explained definition or None, code), …]: cut at each section and around each explained definition.

    explained  {name: name of the first definition in its block on the page}
    """
    cells, group = [], None
    for number, (title, names, code) in enumerate(pieces(source)):
        here = next((explained[name] for name in names if name in explained), None)
        if number == 0:
            title = "Imports and settings"
        if number and title is None and here == group:
            cells[-1][2] += GAP + code
        else:
            cells.append([title, here, code])
        group = here
    for _, _, code in cells:
        ast.parse(code)                                    # no definition is cut in two
    return cells


def _title(block):
    match = re.match(r"# (.+)\n(?:\n|$)", block)
    return re.split(r"[.:](?: |$)", match[1])[0] if match else None


def _names(block):
    return [node.name for node in ast.parse(block).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]


# The words of the pages.

def explanations(lab, pages):
    """{definition: (first definition of its fence, heading, Markdown)}: what a page says about the code it shows, without links and measured numbers."""
    found = {}
    for page in PAGES:
        heading, lines = None, pages.get(f"{page}.md", "").splitlines()
        for number, line in enumerate(lines):
            if match := re.match(r"#+ (.*?) \{ #[\w-]+ \}$", line):
                heading = match[1]
            if not re.match(r"```\{\.python", line):
                continue
            end = next(i for i in range(number + 1, len(lines)) if lines[i].strip() == "```")
            shown = [match[1] for text in lines[number:end] if (match := re.match(rf'--8<-- "{lab}\.py:(\w+)"', text))]
            said = [text for text in _list(lines[end + 1 :]) if "{{" not in text]
            for name in shown if said else []:
                found.setdefault(name, (shown[0], plain(heading), "\n".join(plain(text) for text in said)))
    return found


def taken(pages):
    """All that notebooks take from pages: while this is the same, so are they."""
    return pages.get("notebooks.md"), {lab: explanations(lab, pages) for lab in labs(pages)}


def _list(lines):
    """The list that stands right behind a code block, if one does."""
    out = []
    for line in lines[1:] if lines and not lines[0].strip() else []:
        if not line.startswith("- "):
            break
        out.append(line)
    return out


def labs(pages):
    """The labs whose notebooks the overview leads to, in its order."""
    return list(dict.fromkeys(re.findall(r"\]\(notebooks/(\w+)\.ipynb\)", pages.get("notebooks.md", ""))))


def intro(lab, lang, text):
    """(title, Markdown) of the lab's section in docs/<lang>/notebooks.md, up to its line of links."""
    match = re.search(rf"^## ([^\n]*?) \{{ #{lab.replace('_', '-')} \}}\n\n(.*?)\n\n\[", text, re.M | re.S)
    if not match or "{{" in match[2]:
        raise PageError(f"docs/{lang}/notebooks.md: a section {{ #{lab.replace('_', '-')} }} with a paragraph without placeholders, then a line of links, is the head of the notebook of {lab}")
    return match[1], plain(match[2])


def plain(text):
    """Without links, whose targets a notebook on another machine does not have, and without attributes."""
    text = re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)
    return re.sub(r"\{ ?[#.:][^}]*\}", "", text)


# The notebook.

def make(lab, lang, programs, words, pages, run=None):
    """The notebook of a lab as a dict, with the outputs of a run, if there is one.

    programs  {name: text} of the programs as single files; a lab that loads some by name gets them in cells of their own
    words   the words of the language; pages: {name: Markdown} of the language
    """
    source, (title, text) = programs[f"{lab}.py"], intro(lab, lang, pages["notebooks.md"])
    said, measured = explanations(lab, pages), run and run["measured"]
    outputs = words.notebooks.outputs.text.format(**{**measured, "commit": measured["commit"][:9], "date": measured["date"][:10]}) if run else words.notebooks.none.text
    cells = [_text("notebook", "\n\n".join([f"# {words.notebooks.title.text.format(title=title)}", text, words.notebooks.origin.text.format(lab=lab), outputs, words.notebooks.run.text.format(lab=lab)]))]

    def section(name, level=2):
        said = words.notebooks.cells[name]
        cells.append(_text(name, f"{'#' * level} {said.heading.text}" + (f"\n\n{said.text.text}" if "text" in said else "")))

    section("setup")
    cells.append(_code("setup-code", f'__name__, __file__ = "{lab}", "{lab}.py"'))
    if beside := identity.loaded_by_name(module := identity.Module(None, source), programs):
        folder = identity.folder_of(module)
        section("beside")
        cells.append(_code("beside-code", f'import pathlib\n\npathlib.Path("{folder}").mkdir(exist_ok=True)'))
        cells += [_code(f"{BESIDE}{name}", f"%%writefile {folder}/{name}.py\n{part.text.rstrip()}") for name, part in beside]
    section("program")
    parts, seen = cells_of(source, {name: first for name, (first, _, _) in said.items()}), {}
    for number, (title, first, code) in enumerate(parts, 1):
        text = []
        if title:
            known = words.notebooks.sections                # a comment of a lab may change: until docs/words has it, it stands as it is written
            text.append(f"### {known[title].text if title in known else title}")
        if first:
            text += [words.notebooks.explained.text.format(heading=said[first][1]), said[first][2]]
        if text:
            slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:50] if title else f"part-{number}"
            cells.append(_text(slug, "\n\n".join(text)))
        cells.append(_code(f"program-{number}", code))
    section("write")
    cells.append(_code("write-code", WRITE.format(sha=hashlib.sha256(source.encode()).hexdigest(), end=source.splitlines()[-1])))
    section("machine")
    cells.append(_code("machine-code", MACHINE_OR_NOT if lab in WITHOUT_GPU else MACHINE))
    for name, code in (("check", 'check()\nprint("check: passed")'), ("measure", "rows = report(measure(), header, line)"), ("values", "print(footer(values(rows)))"), ("row", "rows[0]")):
        section(name)
        cells.append(_code(f"{name}-code", code))
    ids = [cell["id"] for cell in cells]
    if len(set(ids)) != len(ids):
        raise PageError(f"the notebook of {lab}: two cells have one id: {', '.join(sorted({i for i in ids if ids.count(i) > 1}))}.")
    if run:
        _give(cells, {**run["cells"], "write-code": _written(f"{lab}.py", source)})
    return {
        "cells": cells, "nbformat": 4, "nbformat_minor": 5,
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}, **({"measured": measured} if run else {})},
    }


def _give(cells, outputs):
    """Put what a run gave below its cells, and count them as it does."""
    for number, cell in enumerate([cell for cell in cells if cell["cell_type"] == "code"], 1):
        cell["execution_count"] = number
        cell["outputs"] = [{**output, **({"execution_count": number} if output["output_type"] == "execute_result" else {})} for output in outputs.get(cell["id"], [])]


def _written(name, program):
    """What the cell prints that writes the program, when no cell was changed. It is not stored: a comment changes it."""
    return [{"name": "stdout", "output_type": "stream", "text": [f"{name}: {len(program.splitlines())} lines, as published\n"]}]


WRITE = '''import hashlib
import pathlib

first = max(number for number, cell in enumerate(In) if cell.startswith('"""'))
last = max(number for number, cell in enumerate(In) if cell.endswith({end!r}))
program = "\\n\\n\\n".join(In[first : last + 1]) + "\\n"
pathlib.Path(__file__).write_bytes(program.encode())
same = hashlib.sha256(program.encode()).hexdigest() == "{sha}"
print(f"{{__file__}}: {{len(program.splitlines())}} lines,", "as published" if same else "not as published: a cell was changed, or run out of turn")'''

MACHINE = '''if problem := gpu_problem():
    raise SystemExit(problem)
import torch

print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")'''

MACHINE_OR_NOT = '''problem = gpu_problem()                                    # without a GPU it weighs resident memory
import torch

print(problem or f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")'''


def text_of(cell):
    return "".join(cell["source"])


def program_of(notebook):
    """The file that the code cells of the program are."""
    return GAP.join(text_of(cell) for cell in notebook["cells"] if cell["id"].startswith("program-")) + "\n"


def dumps(notebook):
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _text(name, source):
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source.splitlines(keepends=True)}


def _code(name, source):
    return {"cell_type": "code", "id": name, "execution_count": None, "metadata": {}, "outputs": [], "source": source.splitlines(keepends=True)}
