"""One notebook a lab and language, made from the program (code) and the pages (words); outputs are kept from a run on a GPU.

    python tools/notebooks.py                      write docs/{en,zh}/notebooks again; outputs stay where the code is the same
    python tools/notebooks.py run --to DIR [LAB…]  execute on this machine's GPU (needs torch, nbclient, ipykernel)
    python tools/notebooks.py take DIR             put executed notebooks of DIR into both languages

The program is cut at its sections, and where a page explains a definition; the cells joined by two blank lines are the file, byte
for byte. Its two child-starting labs need that file, so a cell behind them writes it from the cells as they were run.
"""
import argparse
import ast
import hashlib
import importlib.util
import json
import pathlib
import re
import sys
import tempfile

import bundle

TOP = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TOP / "examples"))                    # for run.py, which imports the kit
LANGUAGES = ("en", "zh")
GAP = "\n\n\n"                                             # between top-level definitions, and so between cells
PAGES = ("lesson", "roofline", "decode", "backward", "measured", "pitfalls")
WITHOUT_GPU = {"flash_vs_naive_memory"}                    # measures something else where there is no GPU
NONE = {"ring_attention": "it needs several GPUs and starts a process on each"}
PATHS = re.compile(r"(?<![\w.:/])/(?:tmp|home|root|usr|opt|work|mnt|var|Users|content|workspace)/|[A-Z]:\\|ipykernel_\d")


sys.path.insert(0, str(TOP / "docs" / "hooks"))
from core.words import load  # noqa: E402


class NotebookError(Exception):
    """What is wrong with which notebook, and what to do."""


def labs():
    """{name: path} of the labs that have a notebook: all but NONE."""
    found = _load(TOP / "examples" / "run.py").find_labs(TOP / "examples")
    return {name: path for name, path in found.items() if name not in NONE}


# The program, in cells.

def pieces(source):
    """[(title of the section or None, names of its definitions, code), …] of a program; the codes joined by GAP and ended by a line end are it."""
    if not source.endswith("\n") or source.endswith("\n\n") or "\r" in source:
        raise NotebookError("the program must end in one line end, and have no carriage returns")
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

def explanations(lab, lang):
    """{definition: (first definition of its fence, heading, Markdown)}: what a page says about the code it shows, without links and measured numbers."""
    found = {}
    for page in PAGES:
        heading, lines = None, (TOP / "docs" / lang / f"{page}.md").read_text("utf-8").splitlines()
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


def _list(lines):
    """The list that stands right behind a code block, if one does."""
    out = []
    for line in lines[1:] if lines and not lines[0].strip() else []:
        if not line.startswith("- "):
            break
        out.append(line)
    return out


def intro(lab, lang):
    """(title, Markdown) of the lab's section in docs/<lang>/notebooks.md, up to its line of links."""
    text = (TOP / "docs" / lang / "notebooks.md").read_text("utf-8")
    match = re.search(rf"^## ([^\n]*?) \{{ #{lab.replace('_', '-')} \}}\n\n(.*?)\n\n\[", text, re.M | re.S)
    if not match or "{{" in match[2]:
        raise NotebookError(f"docs/{lang}/notebooks.md: a section {{ #{lab.replace('_', '-')} }} with a paragraph without placeholders, then a line of links, is the head of the notebook of {lab}")
    return match[1], plain(match[2])


def plain(text):
    """Without links, whose targets a notebook on another machine does not have, and without attributes."""
    text = re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)
    return re.sub(r"\{ ?[#.:][^}]*\}", "", text)


# The notebook.

def make(lab, lang, old=None):
    """The notebook of a lab as a dict; outputs and what is known of them are taken from `old`, whose code must be the same."""
    source = bundle.bundle(TOP / "examples" / f"{lab}.py")
    words, (title, text) = load(TOP / "docs" / "words")[lang], intro(lab, lang)
    said = explanations(lab, lang)
    measured = (old or {}).get("metadata", {}).get("measured")
    outputs = words.notebooks.outputs.text.format(**{**measured, "commit": measured["commit"][:9], "date": measured["date"][:10]}) if measured else words.notebooks.none.text
    cells = [_text("notebook", "\n\n".join([f"# {words.notebooks.title.text.format(title=title)}", text, words.notebooks.origin.text.format(lab=lab), outputs, words.notebooks.run.text.format(lab=lab)]))]

    def section(name, level=2):
        said = words.notebooks.cells[name]
        cells.append(_text(name, f"{'#' * level} {said.heading.text}" + (f"\n\n{said.text.text}" if "text" in said else "")))

    section("setup")
    cells.append(_code("setup-code", f'__name__, __file__ = "{lab}", "{lab}.py"'))
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
    cells.append(_code("write-code", WRITE.format(sha=hashlib.sha256(source.encode()).hexdigest())))
    section("machine")
    cells.append(_code("machine-code", MACHINE_OR_NOT if lab in WITHOUT_GPU else MACHINE))
    for name, code in (("check", 'check()\nprint("check: passed")'), ("measure", "rows = report(measure(), header, line)"), ("values", "print(footer(values(rows)))"), ("row", "rows[0]")):
        section(name)
        cells.append(_code(f"{name}-code", code))
    ids = [cell["id"] for cell in cells]
    if len(set(ids)) != len(ids):
        raise NotebookError(f"{lab}: two cells have one id: {[i for i in ids if ids.count(i) > 1]}")
    notebook = {
        "cells": cells, "nbformat": 4, "nbformat_minor": 5,
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"},
                     **({"measured": measured} if measured else {})},
    }
    return keep_outputs(lab, notebook, old) if old else notebook


WRITE = '''import hashlib
import pathlib

first = max(number for number, cell in enumerate(In) if cell.startswith('"""'))
last = max(number for number, cell in enumerate(In) if cell.endswith("sys.exit(main())"))
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


def keep_outputs(lab, notebook, old):
    """`notebook` with the outputs of `old`. Raises NotebookError where the code is another; where the program is cut does not matter."""
    now, then = ({cell["id"]: cell for cell in each["cells"] if cell["cell_type"] == "code" and not cell["id"].startswith("program-")} for each in (notebook, old))
    if program_of(notebook) != program_of(old) or {i: text_of(cell) for i, cell in now.items()} != {i: text_of(cell) for i, cell in then.items()}:
        raise NotebookError(f"{lab}: its notebook was measured before the last change of the program or of its cells. Run `make notebooks-run LAB={lab}` on a machine with a GPU.")
    for name, cell in now.items():
        cell["outputs"] = then[name]["outputs"]
    if then["row-code"]["execution_count"]:
        for number, cell in enumerate([cell for cell in notebook["cells"] if cell["cell_type"] == "code"], 1):
            cell["execution_count"] = number
            for output in cell["outputs"]:
                if "execution_count" in output:
                    output["execution_count"] = number
    return notebook


def problems(notebook):
    """What must not be in a notebook that is published, as lines: cells without a run or with an error, paths, outputs of another kind than text or edited since."""
    measured = notebook["metadata"].get("measured")
    found = [] if measured else ["it was never executed on a GPU"]
    if measured and measured.get("seal") != seal(notebook):
        found.append("its outputs, or what is known of the run, were changed since")
    for number, cell in enumerate([cell for cell in notebook["cells"] if cell["cell_type"] == "code"], 1):
        if cell["execution_count"] != number:
            found.append(f"cell {cell['id']} was run as number {cell['execution_count']}, not {number}")
        for output in cell["outputs"]:
            if output["output_type"] == "error":
                found.append(f"cell {cell['id']} raises {output['ename']}: {output['evalue']}")
            elif output["output_type"] not in ("stream", "execute_result") or set(output.get("data", {})) - {"text/plain"}:
                found.append(f"cell {cell['id']} has an output that is not text")
        if cell["outputs"] and cell["id"].startswith("program-"):
            found.append(f"cell {cell['id']} of the program prints")
        if match := PATHS.search(json.dumps(cell["outputs"], ensure_ascii=False).replace("\\n", "\n")):
            found.append(f"cell {cell['id']} has a path in its output: {match[0]}")
    return found


def seal(notebook):
    """sha256 of where and when the notebook was run and of what its cells gave; where the program is cut does not matter."""
    run = {name: value for name, value in notebook["metadata"]["measured"].items() if name != "seal"}
    given = {cell["id"]: [{name: value for name, value in output.items() if name != "execution_count"} for output in cell["outputs"]] for cell in notebook["cells"] if cell.get("outputs")}
    return hashlib.sha256(json.dumps([run, given], ensure_ascii=False, sort_keys=True).encode()).hexdigest()


def text_of(cell):
    return "".join(cell["source"])


def program_of(notebook):
    """The file that the code cells of the program are."""
    return GAP.join(text_of(cell) for cell in notebook["cells"] if cell["id"].startswith("program-")) + "\n"


def path_of(lab, lang):
    return TOP / "docs" / lang / "notebooks" / f"{lab}.ipynb"


def read(path):
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def dumps(notebook):
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def write(lab, lang, old):
    path = path_of(lab, lang)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dumps(make(lab, lang, old)), "utf-8", newline="\n")


def _text(name, source):
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source.splitlines(keepends=True)}


def _code(name, source):
    return {"cell_type": "code", "id": name, "execution_count": None, "metadata": {}, "outputs": [], "source": source.splitlines(keepends=True)}


# The run.

def execute(notebook, folder, timeout=150):
    """Run a notebook in `folder`; returns it with outputs. Raises NotebookError with the last line of a cell's error; what was run is in error.notebook."""
    import nbclient
    import nbformat

    node = nbformat.reads(json.dumps(notebook), as_version=4)
    client = nbclient.NotebookClient(node, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": str(folder)}},
                                     record_timing=False, coalesce_streams=True)
    try:
        client.execute()
    except Exception as error:
        raised = NotebookError((str(error).strip().splitlines() or ["no message"])[-1])
        raised.notebook = json.loads(nbformat.writes(node))
        raise raised from None
    done = json.loads(nbformat.writes(node))
    for cell, before in zip(done["cells"], notebook["cells"]):
        cell["metadata"] = before["metadata"]
        for output in cell.get("outputs", []):
            if output["output_type"] == "stream":
                output["text"] = [anonymous(line) for line in output["text"]]
    done["metadata"] = notebook["metadata"]
    return done


def anonymous(line):
    """A line of a warning without the folders of this machine: IPython's file name of a cell holds a process id, a library's its place."""
    return re.sub(r"\S*/site-packages/", "", re.sub(r"\S*/ipykernel_\d+/\d+\.py", "cell", line))


def run(names, to, commit=None, dirty=None):
    """Execute labs on the GPU here and write <to>/<lab>.ipynb. Returns the exit status."""
    runner = _load(TOP / "examples" / "run.py")
    missing = [name for name in ("nbclient", "nbformat", "ipykernel") if importlib.util.find_spec(name) is None]
    problem = f"{sys.executable} lacks {', '.join(missing)}: {sys.executable} -m pip install nbclient ipykernel" if missing else runner.gpu_problem()
    if problem:
        print(problem, file=sys.stderr)
        return 2
    to.mkdir(parents=True, exist_ok=True)
    failed = []
    for lab in names:
        path = TOP / "examples" / f"{lab}.py"
        source, software, machine = runner.source(path, commit, dirty), runner.software(), runner.machine()
        measured = {"gpu": machine["gpu"], "driver": machine["driver"], "torch": software["torch"], "python": software["python"], "date": runner.now(),
                    "commit": source["commit"], "dirty": source["dirty"], "source": source["path"], "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        print(f"{lab}: executing its notebook", flush=True)
        try:
            with tempfile.TemporaryDirectory() as folder:
                done = execute(make(lab, "en"), folder)
            done["metadata"]["measured"] = measured
            measured["seal"] = seal(done)
            bad = problems(done)
        except NotebookError as error:
            done, bad = getattr(error, "notebook", None), [str(error)]
        if done:
            (to / f"{lab}.ipynb").write_text(dumps(done), "utf-8", newline="\n")
        if bad:
            failed.append(lab)
            print(f"{lab}: {'; '.join(bad)}", flush=True)
    print(f"{len(names) - len(failed)} of {len(names)} notebooks executed" + (f"; not: {', '.join(failed)}" if failed else ""), flush=True)
    return 1 if failed else 0


def take(folder):
    """Put executed notebooks of `folder` into both languages. Raises NotebookError for one that is incomplete or of other code."""
    found = sorted(folder.glob("*.ipynb"))
    if not found:
        raise NotebookError(f"{folder} holds no notebook")
    for path in found:
        old = read(path)
        bad = problems(old)
        if path.stem not in labs():
            bad.append("there is no such lab")
        elif not bad and old["metadata"]["measured"]["sha256"] != hashlib.sha256((TOP / "examples" / f"{path.stem}.py").read_bytes()).hexdigest():
            bad.append("it was measured before the last change of the program")
        if bad:
            raise NotebookError(f"{path.name}: {'; '.join(bad)}")
        for lang in LANGUAGES:
            write(path.stem, lang, old)
        print(f"{path.stem}: {', '.join(LANGUAGES)}")


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command")
    runs = commands.add_parser("run", help="execute on this machine's GPU")
    runs.add_argument("labs", nargs="*", metavar="LAB")
    runs.add_argument("--to", type=pathlib.Path, required=True, metavar="DIR")
    runs.add_argument("--commit", metavar="SHA", help="the commit of the programs, where there is no git to ask")
    runs.add_argument("--clean", dest="dirty", action="store_false", default=None, help="the programs are those of the commit")
    takes = commands.add_parser("take", help="put executed notebooks into both languages")
    takes.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args(argv)
    try:
        if options.command == "run":
            unknown = sorted(set(options.labs) - set(labs()))
            if unknown:
                raise NotebookError(f"There is no lab {', '.join(unknown)}. The labs are: {', '.join(labs())}")
            return run(options.labs or list(labs()), options.to, options.commit, options.dirty)
        if options.command == "take":
            take(options.folder)
            return 0
        for lab in labs():
            for lang in LANGUAGES:
                write(lab, lang, read(path_of(lab, lang)))
    except NotebookError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
