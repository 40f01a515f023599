"""Notebooks: equal to the programs byte for byte, with what a GPU gave, without traces of its machine; their pages; what must turn red, and what must not."""
import ast
import dis
import gzip
import html
import json
import pathlib
import re
import shutil

import bundle
import notebooks
import pytest
from core import cells
from core.errors import PageError
from kit.identity import identity
from support import LANGUAGES, TOP, WORDS, violations

LABS = sorted(notebooks.labs())
EACH = [pytest.param(lab, lang, id=f"{lang}-{lab}") for lab in LABS for lang in LANGUAGES]


def source_of(lab):
    return bundle.bundle(TOP / "examples" / f"{lab}.py")


@pytest.fixture(scope="module")
def committed():
    """The notebooks as the site has them."""
    return {(lab, lang): notebooks.make(lab, lang, run_of(lab)) for lab in LABS for lang in LANGUAGES}


CARD = TOP / "examples/results/nvidia-h200"


def run_of(lab):
    """What the cells gave, or None for a lab that no card ran as a notebook yet."""
    path = CARD / f"{lab}.cells.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


# What is committed.

def test_each_lab_has_a_notebook_but_those_that_say_why_not():
    every = notebooks.runner.find_labs(TOP / "examples")
    assert set(notebooks.NONE) <= set(every) and set(LABS) == set(every) - set(notebooks.NONE)


def test_what_is_stored_of_notebooks_is_what_their_cells_gave_once():
    assert not list((TOP / "docs").rglob("*.ipynb"))
    for path in sorted((TOP / "examples/results").glob("*/*.cells.json")):
        run = json.loads(path.read_text("utf-8"))
        assert not cells.problems(run) and cells.as_text(run) == path.read_text("utf-8")
        assert path.name.removesuffix(".cells.json") in LABS and notebooks.runner.slug(run["measured"]["gpu"]) == path.parent.name


@pytest.mark.parametrize("lab, lang", EACH)
def test_its_program_is_the_published_file_byte_for_byte(committed, lab, lang):
    assert cells.program_of(committed[lab, lang]) == source_of(lab)


@pytest.mark.parametrize("lab, lang", EACH)
def test_the_cell_that_writes_the_program_finds_it_among_the_cells_that_ran(committed, lab, lang, tmp_path, capsys):
    code = [cell for cell in committed[lab, lang]["cells"] if cell["cell_type"] == "code"]
    at, = [number for number, cell in enumerate(code) if cell["id"] == "write-code"]
    exec(cells.text_of(code[at]), {"In": ["", *map(cells.text_of, code[:at + 1])], "__file__": str(tmp_path / f"{lab}.py")})  # noqa: S102  as IPython would
    assert capsys.readouterr().out.endswith("lines, as published\n") and (tmp_path / f"{lab}.py").read_text("utf-8") == source_of(lab)


@pytest.mark.parametrize("lab, lang", EACH)
def test_it_was_executed_whole_and_says_where_and_when(committed, lab, lang):
    import nbformat

    notebook = committed[lab, lang]
    nbformat.validate(nbformat.reads(json.dumps(notebook), as_version=4))
    if run_of(lab) is None:                                # a new lab: its notebook waits for no GPU, and says so
        assert "measured" not in notebook["metadata"] and WORDS[lang].notebooks.none.text in cells.text_of(notebook["cells"][0])
        return
    measured = notebook["metadata"]["measured"]
    assert re.fullmatch(r"[0-9a-f]{40}", measured["commit"]) and measured["dirty"] is False and measured["source"] == f"examples/{lab}.py"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", measured["date"]) and all(measured[key] for key in ("gpu", "driver", "torch", "python"))
    head = cells.text_of(notebook["cells"][0])
    assert all(text in head for text in (measured["gpu"], measured["driver"], measured["torch"], measured["date"][:10], measured["commit"][:9]))
    said = {cell["id"]: "".join("".join(o.get("text") or o["data"]["text/plain"]) for o in cell["outputs"]) for cell in notebook["cells"] if cell["cell_type"] == "code"}
    assert said["write-code"] == f"{lab}.py: {source_of(lab).count(chr(10))} lines, as published\n"
    assert said["machine-code"] == f"{measured['gpu']}, PyTorch {measured['torch']}\n"
    assert "check: passed" in said["check-code"] and said["measure-code"].count("\n") > 20 and said["values-code"].strip() and said["row-code"].startswith("{")


def test_the_memory_notebook_agrees_with_the_committed_result(committed):
    """Bytes do not depend on the run: the notebook prints those that the result holds."""
    result = json.loads((TOP / "examples/results/nvidia-h200/flash_vs_naive_memory.json").read_text("utf-8"))
    cell = next(cell for cell in committed["flash_vs_naive_memory", "en"]["cells"] if cell["id"] == "measure-code")
    printed = "".join("".join(output["text"]) for output in cell["outputs"])
    lines = [{float(number) for number in re.findall(r"\d+(?:\.\d+)?", line.replace(",", ""))} for line in printed.splitlines()]
    grid = [(row["S"], row["kv_heads"], round(row["naive_mib"], 1), round(row["flash_mib"], 1)) for row in result["rows"] if row["part"] == "grid"]
    assert len(grid) == 18 and all(any(line >= set(row) for line in lines) for row in grid)


@pytest.mark.parametrize("lab", LABS)
def test_both_languages_hold_the_same_cells_and_outputs(committed, lab):
    en, zh = (committed[lab, lang] for lang in LANGUAGES)
    assert [(cell["id"], cell["cell_type"]) for cell in en["cells"]] == [(cell["id"], cell["cell_type"]) for cell in zh["cells"]]
    assert [cell for cell in en["cells"] if cell["cell_type"] == "code"] == [cell for cell in zh["cells"] if cell["cell_type"] == "code"]
    assert en["metadata"] == zh["metadata"]
    for ours, theirs in zip(en["cells"], zh["cells"]):
        if ours["cell_type"] == "markdown":
            a, b = cells.text_of(ours), cells.text_of(theirs)
            assert re.findall(r"(?m)^#+|^- ", a) == re.findall(r"(?m)^#+|^- ", b) and sorted(re.findall(r"\$[^$]+\$", a)) == sorted(re.findall(r"\$[^$]+\$", b))
            assert not re.search("[\u4e00-\u9fff]", a) and (re.search("[\u4e00-\u9fff]", b) or re.fullmatch(r"#+ .*", b.split("\n")[0]))


@pytest.mark.parametrize("lab", LABS)
def test_chinese_is_set_as_on_the_pages(committed, lab):
    for cell in committed[lab, "zh"]["cells"]:
        for line in cells.text_of(cell).splitlines() if cell["cell_type"] == "markdown" else []:
            plain = re.sub(r"`[^`]*`|\$[^$]*\$|\*", "", line)
            assert not re.search(r"[\u4e00-\u9fff][A-Za-z0-9]|[A-Za-z0-9%][\u4e00-\u9fff]", plain), line
            assert not re.search(r"[，。、；：！？）」』]\*\*[\u4e00-\u9fff\w]", line), f"bold here is literal stars in Jupyter: {line}"
            assert not re.search(r"\]\((?!https?:)", line), f"a link that leads nowhere on another machine: {line}"


@pytest.mark.parametrize("lab", LABS)
def test_the_cells_around_the_program_take_none_of_its_names(committed, lab):
    notebook = committed[lab, "en"]
    code = [cells.text_of(cell) for cell in notebook["cells"] if cell["cell_type"] == "code" and not cell["id"].startswith(("program-", cells.BESIDE))]
    own = {step.argval for text in code for step in dis.get_instructions(compile(text, "cell", "exec")) if step.opname == "STORE_NAME"} - {"__name__", "__file__"}
    tree = ast.parse(source_of(lab))
    names = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))} | {target.id for node in tree.body if isinstance(node, ast.Assign) for target in ast.walk(node) if isinstance(target, ast.Name)}
    assert own and not own & names


# A toy lab: made, executed by a real kernel, and broken.

TOY = '''"""A toy that measures itself in a child process."""

import json
import subprocess
import sys


# The check: nothing much.

def check():
    assert half(4) == 2


def half(x):
    return x / 2


# Rows, values and text.

def measure():
    child = subprocess.run([sys.executable, __file__, "--child"], capture_output=True, text=True, check=True)
    yield {"part": "all", "answer": json.loads(child.stdout), "kernel": "none"}


def report(rows, header, line):
    return [print(row) or row for row in rows]


def header(part):
    return ""


def line(row):
    return ""


def values(rows):
    return {"count": len(rows)}


def footer(found):
    return f"{found['count']} row"


def gpu_problem():
    return None


def main():
    print(half(84))


if __name__ == "__main__":
    raise SystemExit(main())
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A tree with one lab and one page that explains a function of it."""
    monkeypatch.setattr(notebooks, "TOP", tmp_path)
    for lang in LANGUAGES:
        (tmp_path / "docs" / lang).mkdir(parents=True)
        (tmp_path / "docs" / lang / "notebooks.md").write_text("# N { #n }\n\n## Toy { #toy }\n\nAbout [it](x.md).\n\n[Notebook](notebooks/toy.ipynb)\n", "utf-8")
        for page in cells.PAGES:
            (tmp_path / "docs" / lang / f"{page}.md").write_text("# P { #p }\n", "utf-8")
        (tmp_path / "docs" / lang / "lesson.md").write_text('## Halves { #halves }\n\n```{.python title="toy.py"}\n--8<-- "toy.py:half"\n```\n\n- `x / 2` is {{ toy.x }}\n- `x` is a [number](g.md#n)\n', "utf-8")
    shutil.copytree(TOP / "docs" / "words", tmp_path / "docs" / "words")
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "toy.py").write_text(TOY, "utf-8")
    shutil.copytree(TOP / "examples" / "kit", tmp_path / "examples" / "kit")
    shutil.copy(TOP / "examples" / "run.py", tmp_path / "examples")
    return tmp_path


def without_torch(notebook):
    """The notebook with a machine cell that needs no torch."""
    next(cell for cell in notebook["cells"] if cell["id"] == "machine-code")["source"] = ["print('no card')"]
    return notebook


def test_a_notebook_runs_from_an_empty_folder_starts_itself_and_proves_its_program(toy, tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    done = notebooks.execute(without_torch(notebooks.make("toy", "en")), folder)
    said = {cell["id"]: "".join("".join(o.get("text") or o["data"]["text/plain"]) for o in cell["outputs"]) for cell in done["cells"] if cell["cell_type"] == "code"}
    assert said["write-code"] == f"toy.py: {TOY.count(chr(10))} lines, as published\n" and (folder / "toy.py").read_text("utf-8") == TOY
    assert "'answer': 42.0" in said["measure-code"] and said["values-code"] == "1 row\n" and said["program-1"] == ""
    assert [cell["execution_count"] for cell in done["cells"] if cell["cell_type"] == "code"] == list(range(1, len(said) + 1))


def test_what_a_lab_loads_from_a_folder_comes_with_its_notebook(toy, tmp_path):
    (toy / "examples/steps").mkdir()
    (toy / "examples/steps/one.py").write_text('"""A step."""\n\nSIZE = 7\n\n\ndef work():\n    return SIZE\n', "utf-8")
    text = TOY.replace("import json\n", "import importlib\nimport json\n").replace("import sys\n", 'import sys\n\nFOLDER = "steps"\n', 1).replace('json.loads(child.stdout)', 'importlib.import_module(f"{FOLDER}.one").work()')
    (toy / "examples/toy.py").write_text(text, "utf-8")
    folder = tmp_path / "empty"
    folder.mkdir()
    done = notebooks.execute(without_torch(notebooks.make("toy", "en")), folder)
    outputs = cells.run_of(done, {**MEASURED, "id": "", "seal": ""})["cells"]
    assert "'answer': 7" in json.dumps(outputs) and not any(name.startswith(cells.BESIDE) for name in outputs)
    assert "SIZE = 7" in (folder / "steps/one.py").read_text("utf-8")


def test_a_changed_cell_is_said_to_be_no_longer_the_published_program(toy, tmp_path):
    notebook = without_torch(notebooks.make("toy", "en"))
    cell = next(cell for cell in notebook["cells"] if "def half" in cells.text_of(cell))
    cell["source"] = [line.replace("x / 2", "x / 2.0") for line in cell["source"]]
    done = notebooks.execute(notebook, tmp_path)
    assert "not as published" in json.dumps(next(cell for cell in done["cells"] if cell["id"] == "write-code")["outputs"])


def test_a_raising_cell_stops_the_run_with_its_message(toy, tmp_path):
    (toy / "examples/toy.py").write_text(TOY.replace("return x / 2", "return x"), "utf-8")
    with pytest.raises(PageError, match="AssertionError") as caught:
        notebooks.execute(without_torch(notebooks.make("toy", "en")), tmp_path)
    with pytest.raises(PageError, match=r"cell check-code raises AssertionError.*; cell measure-code was run as number None"):
        cells.run_of(caught.value.notebook, {"source": "examples/toy.py"})


def test_words_come_from_the_page_without_numbers_that_were_measured_and_links_that_lead_nowhere(toy):
    text = "\n".join(cells.text_of(cell) for cell in notebooks.make("toy", "en")["cells"] if cell["cell_type"] == "markdown")
    assert "# Notebook: Toy\n\nAbout it." in text and "### The check" in text and "From “Halves”:\n\n- `x` is a number" in text and "{{" not in text
    assert f"### {WORDS['zh'].notebooks.sections['The check'].text}" in "".join(cells.text_of(cell) for cell in notebooks.make("toy", "zh")["cells"])


MEASURED = {"gpu": "Card", "driver": "1", "torch": "2", "python": "3", "date": "2026-11-29T00:00:00Z", "commit": "0" * 40, "dirty": False, "source": "examples/toy.py"}


@pytest.fixture
def executed(toy):
    """What a run of the toy's notebook on a GPU gives, in a folder to take."""
    return given(toy, {name: [{"name": "stdout", "output_type": "stream", "text": [f"{name} says\n"]}] for name in cells.RUN})


def given(toy, outputs, sealed=True):
    run = {"measured": {**MEASURED, "id": identity(TOY), "seal": ""}, "cells": outputs}
    if sealed:
        run["measured"]["seal"] = cells.seal(run)
    (toy / "done/card").mkdir(parents=True, exist_ok=True)
    (toy / "done/card/toy.cells.json").write_text(cells.as_text(run), "utf-8")
    return run


def test_outputs_go_into_both_languages_and_stay_while_words_and_comments_change(toy, executed):
    assert notebooks.main(["take", str(toy / "done")]) == 0
    stored = toy / "examples/results/card/toy.cells.json"
    assert stored.read_bytes() == (toy / "done/card/toy.cells.json").read_bytes()
    for lang in LANGUAGES:
        notebook = notebooks.make("toy", lang, executed)
        assert "measure-code says" in json.dumps(notebook) and "Card" in cells.text_of(notebook["cells"][0])
    program = TOY.replace("# The check: nothing much.", "# The proof: in other words.\n# And a line more.").replace("return x / 2", "return x / 2  # half of it")
    (toy / "examples/toy.py").write_text(program, "utf-8")
    (toy / "docs/zh/lesson.md").write_text("# P { #p }\n", "utf-8")   # the page no longer explains the function: another cut, the same program
    notebook = notebooks.make("toy", "zh", executed)
    written = next(cell for cell in notebook["cells"] if cell["id"] == "write-code")["outputs"]
    assert cells.program_of(notebook) == program and "measure-code says" in json.dumps(notebook) and f"{program.count(chr(10))} lines, as published" in json.dumps(written)
    assert cells.load(toy / "examples/results", {"toy.py": program})["card", "toy"]["stale"] is False
    assert cells.load(toy / "examples/results", {"toy.py": program.replace("x / 2", "x / 4")})["card", "toy"]["stale"] is True


def test_a_program_changed_since_the_run_is_refused_and_nothing_is_written(toy, executed, capsys):
    (toy / "examples/toy.py").write_text(TOY.replace("half(4) == 2", "half(6) == 3"), "utf-8")
    assert notebooks.main(["take", str(toy / "done")]) == 1 and "measured before the last change" in capsys.readouterr().err
    assert not (toy / "examples/results").exists()


def test_a_notebook_that_was_never_run_is_made_and_says_so(toy):
    notebook = notebooks.make("toy", "en")
    assert WORDS["en"].notebooks.none.text in cells.text_of(notebook["cells"][0]) and not any(cell.get("outputs") for cell in notebook["cells"])


@pytest.mark.parametrize("output, complaint", [
    ({"name": "stderr", "output_type": "stream", "text": ["/root/x.py:1: UserWarning\n"]}, "a path"),
    ({"name": "stdout", "output_type": "stream", "text": ["see\n/tmp/a\n"]}, "a path"),
    ({"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []}, "raises ValueError: no"),
    ({"output_type": "display_data", "data": {"image/png": "AAAA"}, "metadata": {}}, "not text"),
    ({"name": "stdout", "output_type": "stream", "text": ["faster\n"]}, "were changed since"),
    (None, "gave nothing"),
])
def test_what_must_not_be_published_is_refused(toy, executed, capsys, output, complaint):
    given(toy, {**executed["cells"], "check-code": [output] if output else []}, sealed=complaint != "were changed since")
    assert notebooks.main(["take", str(toy / "done")]) == 1 and complaint in capsys.readouterr().err
    assert not (toy / "examples/results").exists()


def test_a_warning_keeps_its_words_and_loses_this_machine():
    assert notebooks.anonymous("/opt/x/lib/python3.12/site-packages/torch/a.py:1: W\n") == "torch/a.py:1: W\n"
    assert notebooks.anonymous("/tmp/ipykernel_12/345.py:2: W /a\n") == "cell:2: W /a\n"


def test_the_run_refuses_a_machine_without_a_gpu_or_packages_and_an_unknown_lab(tmp_path, capsys, monkeypatch):
    assert notebooks.main(["run", "--to", str(tmp_path / "out"), "attention_error"]) == 2 and "CUDA" in capsys.readouterr().err
    assert notebooks.main(["run", "--to", str(tmp_path / "out"), "no_lab"]) == 1 and "There is no lab no_lab" in capsys.readouterr().err
    monkeypatch.setattr(notebooks.importlib.util, "find_spec", lambda name: None if name == "ipykernel" else name)
    assert notebooks.run(["attention_error"], tmp_path / "out") == 2 and "lacks ipykernel" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# The pages.

@pytest.mark.parametrize("lab, lang", EACH)
def test_the_page_shows_every_cell_and_output_in_the_sites_own_elements(site, committed, lab, lang):
    page = (site / lang / "notebooks" / lab / "index.html").read_text("utf-8")
    article = page[page.index("<article") : page.index("</article")]
    shown = [html.unescape(re.sub(r"<[^>]*>", "", code)) for code in re.findall(r"<pre><span></span><code[^>]*>(.*?)</code></pre>", re.sub(r"<nav.*?</nav>", "<span></span>", article, flags=re.S), re.S)]
    wanted = []
    for cell in committed[lab, lang]["cells"]:
        if cell["cell_type"] == "code":
            wanted += [cells.text_of(cell)] + ["".join(o.get("text") or o["data"]["text/plain"]) for o in cell["outputs"]]
    assert [text.strip("\n") for text in shown] == [text.strip("\n") for text in wanted]
    headings = [(cell["id"], cells.text_of(cell).split("\n")[0].lstrip("# ")) for cell in committed[lab, lang]["cells"] if cells.text_of(cell).startswith("#") and cell["cell_type"] == "markdown"]
    assert [(name, html.unescape(re.sub("<[^>]*>", "", text))) for name, text in re.findall(r'<h[1-3] id="([^"]+)">(.*?)<a class="headerlink"', article)] == headings
    contents = page[page.rindex('data-md-component="toc"') : page.index("<article")]
    assert re.findall(r'href="#([^"]+)"', contents) == [name for name, _ in headings[1:]]
    assert not re.search(r"jp-|clipboard-copy|zeroclipboard|highlight-ipynb|require(?:js)?\.|mathjax|mermaid|cell \d+ -->", article, re.I)
    assert "<style" not in article and "<script" not in article
    assert len(gzip.compress(page.encode(), 9)) <= 60_000


@pytest.mark.parametrize("lab, lang", EACH)
def test_the_notebook_is_offered_and_is_the_one_that_the_page_shows(site, committed, lab, lang):
    folder = site / lang / "notebooks" / lab
    page = (folder / "index.html").read_text("utf-8")
    assert f'href="{lab}.ipynb" download>' in page and "colab.research" not in page
    assert (folder / f"{lab}.ipynb").read_text("utf-8") == cells.dumps(committed[lab, lang])


def test_formulas_of_notebooks_are_rendered(site):
    for lang in LANGUAGES:
        for lab in ("flash_backward", "flash_vs_naive_memory"):
            page = (site / lang / "notebooks" / lab / "index.html").read_text("utf-8")
            assert len(re.findall(r"<math[ >]", page)) == page.count('class="math"') > 0 and "arithmatex" not in page and "katex.min.css" in page


def test_the_search_knows_the_notebooks_and_not_their_code(site):
    for lang in LANGUAGES:
        docs = json.loads((site / lang / "search/search_index.json").read_text("utf-8"))["docs"]
        of_notebooks = [doc for doc in docs if re.match(r"notebooks/\w", doc["location"])]
        assert {doc["location"].split("/")[1] for doc in of_notebooks} == set(LABS)
        text = json.dumps(of_notebooks)
        assert "memory_stats" not in text and "as published" not in text and "nvjet" not in text
        assert len(text) < 0.2 * len(json.dumps(docs))


def test_colab_opens_the_file_in_the_repository_where_that_is_on_github():
    from core.notebooks import links

    assert 'href="https://colab.research.google.com/github/me/it/blob/notebooks/zh/x.ipynb"' in links("x", "zh", WORDS["zh"], "../../../", "g", "https://github.com/me/it/")
    for repository in ("", None, "https://code.example/me/it"):
        assert "colab" not in links("x", "en", WORDS["en"], "../../../", "g", repository)


def test_a_notebook_is_described_in_whole_sentences_of_its_own(site):
    from core.notebooks import description

    for lang in LANGUAGES:
        said = {lab: re.search(r'<meta name="description" content="([^"]*)"', (site / lang / "notebooks" / lab / "index.html").read_text("utf-8"))[1] for lab in LABS}
        assert len(set(said.values())) == len(LABS) and all(re.search(r"[.?。？！]$", text) and "$" not in text for text in said.values()), said
    cell = {"source": ["# T\n", "\n", "Made of `a` and $b$. Short and true. " + "Long " * 40 + "end.\n", "\n", "more"]}
    assert description({"cells": [cell]}, "en") == "Short and true."


def test_the_overview_leads_to_each_notebook_and_its_page(site):
    for lang in LANGUAGES:
        page = (site / lang / "notebooks/index.html").read_text("utf-8")
        assert [lab for lab in LABS if f'href="{lab}/"' not in page] == []
        measured = (site / lang / "measured/index.html").read_text("utf-8")
        assert [lab for lab in LABS if f'href="../notebooks/{lab}/"' not in measured] == []
        assert 'href="../notebooks/flash_vs_naive_memory/"' in (site / lang / "lesson/index.html").read_text("utf-8")


# What must turn the build red, or show a mark.

STORED = "examples/results/nvidia-h200/attention_error.cells.json"


def test_a_published_error_breaks_the_build(tree):
    run = json.loads(tree.path(STORED).read_text("utf-8"))
    run["cells"]["row-code"] = [{"output_type": "error", "ename": "ValueError", "evalue": "planted", "traceback": []}]
    run["measured"]["seal"] = cells.seal(run)
    tree.path(STORED).write_text(cells.as_text(run), "utf-8")
    done = tree.build()
    assert done.returncode != 0 and f"{STORED}: cell row-code raises ValueError: planted" in done.stdout


def test_what_a_cell_gave_is_not_edited_by_hand_and_is_json(tree):
    tree.edit(STORED, "check: passed", "check: passed.")
    run = tree.build()
    assert run.returncode != 0 and f"{STORED}: its outputs, or what is known of the run, were changed since" in run.stdout
    tree.edit(STORED, '"measured"', "measured")
    run = tree.build()
    assert run.returncode != 0 and re.search(rf"{re.escape(STORED)}:\d+: not strict JSON", run.stdout)


def test_a_formula_that_fails_names_the_notebook(tree):
    tree.edit("docs/words/en.yml", '      text: "`check()`', r'      text: "$\\frac$ `check()`')
    run = tree.build()
    assert run.returncode != 0 and re.search(r"en/notebooks/\w+\.ipynb(:\d+)?: formula '\\frac'", run.stdout)


def test_a_raising_cell_breaks_a_build_that_executes(tree):
    """The site's own builds execute nothing; should one, an error is not published as a traceback."""
    assert "allow_errors: false" in tree.path("mkdocs.en.yml").read_text("utf-8")
    tree.edit("mkdocs.en.yml", "execute: false", "execute: true, execute_ignore: [" + ", ".join(f'"{lab}.ipynb"' for lab in LABS) + "]")
    notebook = {"cells": [cells._text("title", "# Raises\n\nA cell that raises."), cells._code("raises", 'raise ValueError("planted")')], "nbformat": 4, "nbformat_minor": 5,
                "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}}
    tree.path("docs/en/notebooks").mkdir()
    tree.path("docs/en/notebooks/raises.ipynb").write_text(cells.dumps(notebook), "utf-8")
    run = tree.build()
    assert run.returncode != 0 and "CellExecutionError" in run.stdout and "planted" in run.stdout
    tree.edit("mkdocs.en.yml", "allow_errors: false", "allow_errors: true")
    assert "CellExecutionError" not in tree.build().stdout


def test_two_languages_do_not_evict_each_others_cache():
    assert all(f"cache_dir: .cache/notebooks/{lang} }}" in (TOP / f"mkdocs.{lang}.yml").read_text("utf-8") for lang in LANGUAGES)


def test_a_program_that_measures_something_else_marks_its_notebook_and_a_comment_does_not(tree):
    for lab, old, new in (("attention_error", "TILES = (64, 128)", "TILES = (64, 256)"), ("hbm_traffic", "RUNS = 3", "RUNS = 3  # each")):
        stored = tree.path(f"examples/results/nvidia-h200/{lab}.cells.json")
        run = json.loads(stored.read_text("utf-8"))                       # as if it had just been run
        run["measured"]["id"] = identity(tree.path(f"examples/{lab}.py"))
        run["measured"]["seal"] = cells.seal(run)
        stored.write_text(cells.as_text(run), "utf-8")
        tree.edit(f"examples/{lab}.py", old, new)
    done = tree.build()
    assert done.returncode == 0, done.stdout
    for lang in LANGUAGES:
        banner = WORDS[lang].page.stale
        assert banner in tree.page(f"{lang}/notebooks/attention_error/index.html") and banner not in tree.page(f"{lang}/notebooks/hbm_traffic/index.html")
        assert "RUNS = 3  # each" in tree.page(f"{lang}/notebooks/hbm_traffic/hbm_traffic.ipynb")


def test_what_mkdocs_jupyter_renders_differently_breaks_the_build():
    from core.notebooks import place, read, shape

    notebook = {"cells": [cells._text("title", "# T"), cells._code("code", "1")]}
    with pytest.raises(PageError, match="other cells"):
        shape("<div></div>", notebook, WORDS["en"], "")
    with pytest.raises(PageError, match="another way"):
        shape('<div class="jp-Cell jp-MarkdownCell jp-Notebook-cell" id="cell-id=title"><div class="jp-Cell jp-CodeCell jp-Notebook-cell" id="cell-id=code">', notebook, WORDS["en"], "")
    with pytest.raises(PageError, match="places for 0 of 1"):
        place("<p></p>", ["a"])
    with pytest.raises(PageError, match="opens with"):
        read(json.dumps({"cells": [cells._text("title", "# T")]}))


# In a browser.

@pytest.mark.parametrize("lang", LANGUAGES)
def test_on_a_phone_and_on_a_desk(chromium, served, committed, lang):
    context = chromium.new_context(viewport={"width": 390, "height": 844}, permissions=["clipboard-read", "clipboard-write"], accept_downloads=True)
    page, problems = context.new_page(), []
    page.on("console", lambda m: m.type in ("error", "warning") and problems.append(m.text))
    page.on("pageerror", lambda e: problems.append(str(e)))
    page.on("request", lambda r: r.url.startswith((served, "data:", "blob:")) or problems.append(f"foreign: {r.url}"))
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 844})
        page.goto(served + f"{lang}/notebooks/flash_backward/", wait_until="networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("getComputedStyle(document.querySelector('.output pre > code')).overflowX") in ("auto", "scroll")
    code = [cell for cell in committed["flash_backward", lang]["cells"] if cell["cell_type"] == "code"]
    buttons = "[...document.querySelectorAll('article .highlight')].map((e) => e.querySelectorAll('.md-code__button, clipboard-copy').length)"
    counts = [number for cell in code for number in [1] + [0] * len(cell["outputs"])]
    assert page.evaluate(buttons) == counts
    page.locator("article .highlight .md-code__button").first.click()
    assert page.evaluate("navigator.clipboard.readText()").strip() == cells.text_of(code[0])
    with page.expect_download() as download:
        page.click('a[href$=".ipynb"]')
    assert json.loads(pathlib.Path(download.value.path()).read_text("utf-8"))["metadata"]["measured"]["gpu"] == "NVIDIA H200"
    page.goto(served + f"{lang}/notebooks/flash_backward/#measure")
    page.click("a[data-language]")
    page.wait_for_url(f"**/{'zh' if lang == 'en' else 'en'}/notebooks/flash_backward/#measure")
    assert not problems, problems
    page.set_viewport_size({"width": 390, "height": 844})
    page.evaluate("document.querySelectorAll('.part').forEach((e) => { e.style.contentVisibility = 'visible'; })")
    page.wait_for_timeout(300)   # observers of size report after the next drawing
    page.evaluate("document.querySelectorAll('.highlight pre span:not(:nth-child(-n + 40))').forEach((e) => e.replaceWith(...e.childNodes))")
    assert not violations(page, "article")
    context.close()
