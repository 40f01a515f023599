"""Hostile input: to the loader of results, the pages, run.py, compare.py, tools/results.py and the graders. Refused in a line or shown as text, never run or believed."""
import copy
import errno
import html.parser
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import types

import exercises
import fences
import markdown
import pytest
from core import evidence, placeholders, results, widgets
from core.book import Book, Place
from core.errors import PageError
from core.measured import Numbers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import LANGUAGES, TOP, WORDS
from test_run import LAB, SCHEMA, SHA, Folder

import compare
import results as tool_of_results  # core.results keeps its own name
import run as runner

BOUNDED = settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))

# A result, and what can be wrong with one


def whole(text="k<1>", gpu="Card X"):
    """A complete result in which every free string is `text`."""
    return {
        "schema": 1, "lab": "lab", "source": {"path": "examples/lab.py", "sha256": "a" * 64, "commit": SHA, "dirty": True},
        "run": {"started": "2026-11-29T12:00:00Z", "seconds": 1.5, "command": text, "seed": None, "status": "ok", "error": None},
        "machine": {"gpu": gpu, "memory": 1, "driver": text, "sms": 132, "l2": None, "cpu": text, "os": text},
        "software": {"python": text, "torch": text, "cuda": text, "cudnn": text, "triton": text},
        "rows": [{"S": 2**n, "impl": text, "sees": text, "ms": 1.5 * n, "intensity": 2.0 ** n, "tflops": 3.0, "kernel": text, "status": "ok"} for n in (1, 2)],
        "values": {"word": text, "copy_gbps": 4000.0, "matmul_tflops": 700.0}, "output": text,
    }


class Shelf:
    """A folder of results with the schema and one lab, as the build reads it."""

    def __init__(self, path):
        self.results, self.examples = path / "results", path
        (self.results / "card").mkdir(parents=True)
        shutil.copy(TOP / "examples/results/schema.json", self.results)
        (path / "lab.py").write_text("pass\n")
        self.file = self.results / "card" / "lab.json"

    def load(self, what):
        text = what if isinstance(what, (str, bytes)) else json.dumps(what)
        self.file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return results.load(self.results, self.examples)


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path)


GOOD = json.dumps(whole())
BROKEN = {
    "truncated": GOOD[:-40], "empty": "", "a list": "[]", "null": "null", "a string": '"result"', "bytes": b"\xff\xfe\x00", "BOM": b"\xef\xbb\xbf" + GOOD.encode(),
    "deep list": GOOD.replace('"k<1>"', "[" * 100_000 + "]" * 100_000, 1), "deep row": GOOD.replace('"sees": "k<1>"', '"sees": ' + "[" * 940 + "]" * 940, 1),
    "deep object": GOOD.replace('"sees": "k<1>"', '"sees": ' + '{"a":' * 900 + "1" + "}" * 900, 1),
    "NaN": GOOD.replace("1.5", "NaN", 1), "Infinity": GOOD.replace("1.5", "-Infinity", 1), "overflow": GOOD.replace('"ms": 1.5', '"ms": 1e999'), "overflow of a duration": GOOD.replace('"seconds": 1.5', '"seconds": 1e999'), "overflow below": GOOD.replace('"ms": 1.5', '"ms": -1e999'),
    "endless integer": GOOD.replace('"ms": 1.5', '"ms": ' + "9" * 5000), "name twice": GOOD.replace('"ms": 1.5', '"ms": 1.5, "ms": 9.5', 1), "lab twice": GOOD.replace('"lab": "lab"', '"lab": "x", "lab": "lab"'),
    "half a character": GOOD.replace('"k<1>"', '"\\ud800"', 1), "half a character in a name": GOOD.replace('"word"', '"\\udfff"', 1),
    "schema 2": GOOD.replace('"schema": 1', '"schema": 2'), "schema one": GOOD.replace('"schema": 1', '"schema": "1"'), "rows no list": json.dumps({**whole(), "rows": {"a": 1}}),
    "a row no object": json.dumps({**whole(), "rows": [1]}), "a row of rows": json.dumps({**whole(), "rows": [[{"kernel": "k", "status": "ok"}]]}), "values a list": json.dumps({**whole(), "values": [1]}),
    "huge": GOOD[:-1] + " " * (17 * 2**20) + "}", "another lab": GOOD.replace('"lab": "lab"', '"lab": "other"'), "trailing": GOOD + "{}",
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_result_is_refused_by_the_build_in_a_line_that_names_it(shelf, what):
    assert list(shelf.load(GOOD)) == [("card", "lab")]
    with pytest.raises(PageError) as caught:
        shelf.load(BROKEN[what])
    assert str(caught.value).startswith("examples/results/card/lab.json: ") and len(str(caught.value)) < 800 and "\n" not in str(caught.value)


def test_a_nesting_is_refused_at_whatever_depth_it_is_too_deep(shelf):
    for depth in range(1, 1000, 9):
        with pytest.raises(PageError):
            shelf.load(GOOD.replace('"sees": "k<1>"', '"sees": ' + "[" * depth + "]" * depth, 1))


@pytest.mark.parametrize("what", [what for what in BROKEN if what not in ("schema 2", "schema one", "values a list", "another lab", "huge")])
def test_a_broken_result_is_refused_by_compare_in_a_line_that_names_it(shelf, what):
    shelf.load(GOOD)
    assert compare.read_result(shelf.file)["lab"] == "lab"
    with pytest.raises(PageError):
        shelf.load(BROKEN[what])
    with pytest.raises(compare.Problem, match="lab.json is no result") as caught:
        compare.read_result(shelf.file)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000


def test_what_is_no_plain_file_is_refused(shelf):
    shelf.file.mkdir()
    with pytest.raises(PageError, match="no plain file"):
        results.load(shelf.results, shelf.examples)
    shelf.file.rmdir()
    shelf.file.symlink_to("nowhere")
    with pytest.raises(PageError, match="no plain file"):
        results.load(shelf.results, shelf.examples)
    shelf.file.unlink()
    os.mkfifo(shelf.file)                                    # reading it would wait for ever
    with pytest.raises(PageError, match="no plain file"):
        results.load(shelf.results, shelf.examples)


@pytest.mark.parametrize("name", ['x" onclick="alert(1)', "<b>", "..x", "Card X", "é", "a--b", "-a"])
def test_the_folder_of_a_card_is_a_plain_name(shelf, name):
    shelf.load(GOOD)
    shelf.file.parent.rename(shelf.results / name)
    with pytest.raises(PageError, match="the folder must be a card's name"):
        results.load(shelf.results, shelf.examples)


def test_the_two_readers_of_results_read_alike():
    import inspect

    assert inspect.getsource(results.strict_json) == inspect.getsource(compare.strict_json)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-10**400, 10**400) | st.floats() | st.text(st.characters(codec=None), max_size=8), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2), max_leaves=4)


def places(value, path=()):
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


PLACES = [path for path in places(whole()) if path]


@BOUNDED
@given(where=st.sampled_from(PLACES), what=ANYTHING)
def test_any_value_anywhere_is_shown_compared_or_refused(tmp_path_factory, where, what):
    result = whole()
    holder = result
    for key in where[:-1]:
        holder = holder[key]
    holder[where[-1]] = what
    shelf = Shelf(tmp_path_factory.mktemp("shelf"))
    try:
        found = shelf.load(result)
    except PageError:
        found = None
    try:
        compare.report({"card": {"lab": compare.read_result(shelf.file)}}, {"card": {"lab": whole()}}, markdown=True)[0].encode("utf-8")
    except compare.Problem:
        assert found is None, "the build takes what compare does not"
    if found:
        try:
            dead(built(found["card", "lab"]))
        except PageError:
            pass


# Nothing in a result is alive on a page

POISON = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", '"><svg onload=alert(1)>', "</p></code></data><script>alert(1)</script>", "[a](javascript:alert(1))", "![a](https://evil.example/x.png)",
    '*x*{: onclick="alert(1)" }', '{: onclick="alert(1)" }', 'x { onclick="alert(1)" }', "`x`", "$x^2$", r"\(x\)", "**x**", "_x_", "<https://evil.example>", "[^1]", "[a][b]", "x | y | z", "a\n\n<script>alert(1)</script>\n\n",
    "\n```\n<script>alert(1)</script>\n```\n", '\n--8<-- "run.py"\n', "&lt;script&gt;", "\x02wzxhzdk:0\x03", "\x00\x1b[31m", '=== "x"', "</script><!--<script>", "{{ lab.word }}", "{{ drawing.plan }}", '<figure data-figure="0"></figure>', "`#!python x`", "\u202ex", "\\", "\\<b>",
]
PAGE = """Here {{{{ lab.word }}}} and {{{{ lab.sees[S=2] }}}} by {{{{ lab.kernel[S=4] }}}}.

| S | impl | sees | kernel |
|---|---|---|---|
{{{{ lab.rows: S impl sees kernel }}}}

{{{{ lab.chart: S="S" ms="time" }}}}
: What to see.

{{{{ lab.provenance }}}}

```{{.text .no-copy}}
{output}
```

last
"""


class Reader(html.parser.HTMLParser):
    """Every element, every attribute, and the text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attributes]

    def handle_data(self, data):
        self.text += data


def placed(results=None, lang="en", root="", **more):
    return placeholders.Page(Book(results=results or {}, words=WORDS, **more), Place(lang, "page.md", root, "https://host/", "card"))


def built(result, output="{{ lab.output }}", lang="en", root="../../"):
    """The page as Python-Markdown renders it with the site's configuration; the result is there twice, so tables have tabs."""
    found = {("card", "lab"): result, ("other-card", "lab"): result}
    page = placed(found, lang, root, drawings={"plan": "<svg></svg>"})
    text = page.expand(PAGE.format(output=output))
    extensions, configs = fences._site_markdown()
    return page.place_figures(markdown.Markdown(extensions=extensions, extension_configs=configs).convert(text))


def dead(page):
    """Raise AssertionError if the page holds what a result of plain words would not bring."""
    found = Reader(page)
    assert not {"script", "img", "iframe", "object", "embed", "math", "form", "base", "link", "meta", "em", "b"} & set(found.tags), found.tags
    assert not [a for a in found.attributes if a[1].startswith("on") or "javascript:" in a[2].lower() and a[1] in ("href", "src")], page
    links = {value for tag, name, value in found.attributes if tag == "a" and name == "href"}
    assert links <= {"../../examples/results/card/lab.json", "../../examples/results/other-card/lab.json"}, links
    return found


def stocked(text, output="plain\n", gpu=None):
    return {**whole(text, gpu or text or "-"), "output": output, "url": "examples/results/card/lab.json", "stale": True}


@pytest.fixture(scope="module")
def plain_tags():
    return sorted(Reader(built(stocked("plain"))).tags)


@pytest.mark.parametrize("poison", POISON, ids=range(len(POISON)))
def test_no_string_of_a_result_is_alive_on_a_page(poison, plain_tags):
    page = built(stocked(poison))
    found = dead(page)
    strays = lambda tags: sorted(tag for tag in tags if tag != "wbr")
    assert strays(found.tags) == strays(plain_tags), "a string of a result made or lost an element"
    shown = re.sub(r"[\x00-\x1f\x7f\s]+", "", poison)
    assert re.sub(r"\s+", "", found.text).count(shown) >= 4, f"{poison!r} is not shown as it is"
    assert WORDS["en"].provenance.stale in found.text


@BOUNDED
@given(parts=st.lists(st.sampled_from([*POISON, "x", " ", "\n", ">", "|", "(", ")", "]", "}", ":"]), min_size=1, max_size=4))
def test_no_mixture_of_them_is_either(parts):
    dead(built(stocked("".join(parts))))


@pytest.mark.parametrize("output", ["```\n<script>alert(1)</script>", "a\n   ~~~~\nb", 'a\n--8<-- "run.py"', "a\n;--8<--\n", "a\x00b", "a\x1b[31mb", "a\rb"])
def test_an_output_that_would_leave_its_fence_is_refused(output):
    with pytest.raises(PageError, match="cannot stand inside a fence"):
        built(stocked("plain", output))
    with pytest.raises(PageError, match="cannot stand inside a fence"):
        built(stocked(output), output="{{ lab.word }}")


@pytest.mark.parametrize("output", ["<script>alert(1)</script>", "a `b` **c** [d](javascript:e)", "</code></pre><img src=x onerror=alert(1)>", "$x$ \\(y\\) &amp; {{ lab.word }}"])
def test_an_output_is_shown_as_text(output, plain_tags):
    found = dead(built(stocked("plain", output)))
    assert output in found.text and not {"a", "strong"} & set(Reader(built(stocked("plain", output)).split("<pre")[1].split("</pre>")[0]).tags)


@pytest.mark.parametrize("cell", ["<script>alert(1)</script>", "$\\frac{$", True, -1.0, 0, 10**400, None], ids=str)
@pytest.mark.parametrize("column", ["S", "ms"])
def test_a_chart_draws_numbers_or_says_what_it_was_given(cell, column):
    result = stocked("plain")
    result["rows"][1][column] = cell
    page = placed({("card", "lab"): result})
    if (column, cell) == ("ms", None):
        assert "<svg" in page.place_figures(page.expand('{{ lab.chart: S="S" ms="time" }}\n: What to see.'))    # a gap
        result["rows"][0][column] = None
    with pytest.raises(PageError, match="column '"):
        page.expand('{{ lab.chart: S="S" ms="time" }}')
    for name in ("S", "intensity", "tflops"):
        result = stocked("plain")
        result["rows"][1][name] = "<b>"
        with pytest.raises(PageError, match=f"column '{name}'"):
            placed({("card", "lab"): result}).expand('{{ lab.roofline: plain="naive" }}')
    result = stocked("plain")
    del result["values"]["copy_gbps"]
    with pytest.raises(PageError, match="cannot draw lab.roofline"):
        placed({("card", "lab"): result}).expand('{{ lab.roofline: plain="naive" }}')


@pytest.mark.parametrize("written", [
    "{{ ../../x.y }}", "{{ /etc/passwd.x }}", "{{ lab@../x.word }}", "{{ lab@/x.word }}", "{{ lab@.word }}", "{{ drawing.../x }}", "{{ drawing./etc/passwd }}", "{{ drawing.plan/../plan }}", "{{ evidence.../vllm }}", "{{ lab.../word }}", "{{ ./lab.word }}",
    "{{ widget.run[file=../../README.md] }}", "{{ widget.run[file=/etc/passwd] }}", "{{ widget.run[file=results/schema.json] }}", "{{ widget.exercise[name=../online_row] }}", "{{ widget.exercise[name=../../x] }}", "{{ widget.stepper[file=../tests/support.py] }}",
    "{{ widget.../run }}", "{{ lab\x00.word }}", "{{ läb.word }}", "{{ 1ab.word }}", "see {{ ../lab.word }} here",
])
def test_path_tricks_in_placeholders_are_refused_with_their_line(written):
    page = placed({("card", "lab"): stocked("plain")}, drawings={"plan": "<svg></svg>"}, evidence={"vllm": {}}, examples={"online_row.py": "pass\n"})
    with pytest.raises(PageError) as caught:
        page.expand("first\n\n" + written)
    assert caught.value.line == 3 and "\n" not in str(caught.value)


@pytest.mark.parametrize("written", [r"$e^{{m-m}}$", r"${{\ell}}_{j}$", "${{ github.event }}".replace(".", "_"), "{{ }}", "a {{b}} c"])
def test_braces_of_formulas_are_not_taken_for_placeholders(written):
    assert placed().expand(written) == written


@pytest.mark.parametrize("path", ["../../README.md", "/etc/hostname", "../snippets/../../README.md", "outputs/../../../README.md", "https://evil.example/x.py", "nothing.py", "run.py:no_such_function", "../snippets-evil/x.py"])
def test_a_snippet_comes_from_the_examples_or_not_at_all(path, tmp_path):
    extensions, configs = fences._site_markdown()
    base = tmp_path / "snippets"
    for name in ("snippets/run.py", "snippets/outputs/x.txt", "snippets-evil/x.py", "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("secret")
    convert = lambda path: markdown.Markdown(extensions=extensions, extension_configs={**configs, "pymdownx.snippets": {**configs["pymdownx.snippets"], "base_path": [str(base)]}}).convert(f'```python\n--8<-- "{path}"\n```')
    assert "secret" in convert("run.py")
    with pytest.raises(Exception, match="could not be (found|located)"):
        convert(path)


def test_evidence_is_whole_and_plain_or_refused(tmp_path):
    good = json.loads((TOP / "docs/evidence/vllm.json").read_text("utf-8"))
    show = lambda what: placed(evidence={"vllm": what}).expand("{{ evidence.vllm[topic=choose] }}")
    assert "<code" in show(good)
    first = next(i for i, one in enumerate(good["statements"]) if one["topic"] == "choose")
    for path, value in [(("versions", "newest", "version"), "<script>"), (("checked",), "<b>"), (("statements", first, "en"), "<script>alert(1)</script>"), (("statements", first, "en"), "[a](javascript:x)"), (("statements", first, "en"), "x {: onclick=y }"),
                        (("statements", first, "en"), None), (("statements", first, "0.26.0", "file"), "`<b>`"), (("statements", first, "0.26.0"), []), (("versions",), {}), (("statements",), [{}]), (("statements", first, "newest"), {})]:
        bad = copy.deepcopy(good)
        holder = bad
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = value
        with pytest.raises(PageError):
            show(bad)
    for text in ("", "{", "[" * 100_000):
        (tmp_path / "vllm.json").write_text(text)
        with pytest.raises(PageError, match="docs/evidence/vllm.json: not JSON"):
            evidence.load(tmp_path / "vllm.json")


def test_data_of_a_widget_cannot_end_its_script(monkeypatch):
    trace = json.loads(json.dumps(widgets.online_trace.example(__import__("online_softmax"))))
    monkeypatch.setattr(widgets.online_trace, "example", lambda lesson: {**trace, "note": "</script><!--<script>alert(1)"})
    lesson = Numbers(Book(examples={"online_softmax.py": (TOP / "examples/online_softmax.py").read_text("utf-8")}, words=WORDS), Place())
    page = widgets.render("stepper", {"file": "online_softmax.py"}, lesson)
    assert page.count("<script") == page.count("</script") == 1 and "<!--" not in page
    shown = widgets.run({"file": "x.py"}, Numbers(Book(examples={"x.py": "</textarea><script>alert(1)</script>"}, words=WORDS), Place(root='"><script>')))
    assert "<script" not in shown and shown.count("</textarea") == 1


# One whole build with a poisoned result

def test_a_built_site_holds_nothing_alive_of_a_poisoned_result(tree):
    marked = "<script>poisoned()</script><img src=x onerror=poisoned()>[p](javascript:poisoned())*p*{: onclick=\"poisoned()\" }"
    for lab in ("flash_vs_naive_memory", "sdpa_dispatch"):
        source = tree.path(f"examples/results/nvidia-h200/{lab}.json")
        result = json.loads(source.read_text("utf-8"))
        result["source"]["id"] = "0" * 64
        for row in result["rows"]:
            row.update({name: value + marked for name, value in row.items() if isinstance(value, str) and name in ("kernel", "naive_kernel")})
        for part in ("machine", "software"):
            result[part].update({name: value + marked for name, value in result[part].items() if isinstance(value, str)})
        source.write_text(json.dumps(result), "utf-8")
        other = tree.path(f"examples/results/other-card/{lab}.json")
        other.parent.mkdir(exist_ok=True)
        other.write_text(json.dumps(result), "utf-8")
    done = tree.build()
    assert done.returncode == 0, done.stdout
    shown = 0
    for path in tree.out.rglob("*.html"):
        text = path.read_text("utf-8")
        found = Reader(text)
        shown += "poisoned()" in text
        alive = [a for a in found.attributes if "poisoned" in a[2] and a[1] not in ("title", "value", "aria-label", "content") or a[1].startswith("on")]
        assert not alive and "<script>poisoned" not in text and "<img src=x" not in text, (path, alive)
    assert shown >= 4, "the poison is on no page: this test shows nothing"


# run.py

@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "somewhere"
    path.mkdir()
    return Folder(path)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "", " ", "a\nb", "a\0b", "lab.py", "./lab", "*", "\x1b[31m", "\udcff", "results/schema"], ids=ascii)
def test_a_lab_is_named_and_not_pathed(name, capsys, monkeypatch):
    monkeypatch.setattr(runner, "run_lab", lambda *a: pytest.fail("ran"))
    assert runner.main([name]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and said.err.startswith("There is no lab ") and "\x1b" not in said.err and "\0" not in said.err


@BOUNDED
@given(st.text(st.characters(codec=None), max_size=300) | st.sampled_from(["../../etc", "/", "..", "", "显卡", "NVIDIA\0H200", "a" * 5000, "CON", "K\u212a"]))
def test_a_card_s_name_is_always_one_folder(name):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", runner.slug(name)) and len(runner.slug(name)) <= 100


WRITER = """
import sys, pathlib
sys.path.insert(0, sys.argv[1])
import run
path, mark = pathlib.Path(sys.argv[2]), sys.argv[3]
for n in range(150):
    run.write(path, {"mark": mark, "n": n, "rows": [mark * 50] * (20 + n % 7 * 200)})
"""


def test_two_writers_of_one_result_and_a_reader_who_never_sees_half_a_file(tmp_path):
    path = tmp_path / "card" / "lab.json"
    runner.write(path, {"mark": "z", "rows": ["z" * 50]})
    failed = []

    def thread(mark):
        try:
            for n in range(150):
                runner.write(path, {"mark": mark, "rows": [mark * 50] * (20 + n % 7 * 200)})
        except Exception as error:
            failed.append(error)

    workers = [subprocess.Popen([sys.executable, "-c", WRITER, str(TOP / "examples"), str(path), mark], stderr=subprocess.PIPE, text=True) for mark in "ab"]
    threads = [threading.Thread(target=thread, args=(mark,)) for mark in "cd"]
    for one in threads:
        one.start()
    seen = set()
    while any(one.poll() is None for one in workers) or any(one.is_alive() for one in threads):
        result = json.loads(path.read_text("utf-8"))
        assert set(result["rows"]) == {result["mark"] * 50}
        seen.add(result["mark"])
    assert [one.communicate()[1] for one in workers] == ["", ""] and not failed, failed
    assert len(seen) >= 2 and os.listdir(path.parent) == ["lab.json"]


def test_killed_at_any_moment_the_file_is_whole(tmp_path):
    path = tmp_path / "card" / "lab.json"
    for delay in (0.0, 0.002, 0.005, 0.011, 0.017):
        process = subprocess.Popen([sys.executable, "-c", WRITER.replace("150", "10**6"), str(TOP / "examples"), str(path), "k"])
        until = time.monotonic() + 60
        before = path.stat().st_mtime_ns if path.exists() else 0
        while not (path.exists() and path.stat().st_mtime_ns > before) and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        result = json.loads(path.read_text("utf-8"))
        assert len(result["rows"]) == 20 + result["n"] % 7 * 200
    assert [p.name for p in path.parent.glob("*.json")] == ["lab.json"], "what a kill left behind is taken for a result"


class Full:
    """A disk on which nothing fits any more once so many files were written."""

    def __init__(self, monkeypatch, writes, name="replace"):
        self.left, self.real = writes, getattr(os, name)
        monkeypatch.setattr(runner.os, name, self)

    def __call__(self, *arguments):
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[0]))
        return self.real(*arguments)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Runs a lab's text in this process, without a card."""
    monkeypatch.setattr(runner, "machine", lambda device: {"gpu": "NVIDIA H200"})
    monkeypatch.setattr(runner, "software", lambda: {})
    monkeypatch.setattr(runner, "company", lambda: {"idle": True, "others_mib": 0.0, "spread_pct": 0.0})
    monkeypatch.setattr(runner.gc, "freeze", lambda: None)

    def go(text=LAB):
        (tmp_path / "small.py").write_text(text)
        return runner.run_lab("small", tmp_path / "small.py", tmp_path / "results", SHA, False)

    go.file = tmp_path / "results" / "nvidia-h200" / "small.json"
    return go


@pytest.mark.parametrize("writes", [0, 1, 2, 3])
def test_a_full_disk_keeps_the_rows_that_are_there_and_is_told_in_a_line(bench, monkeypatch, writes, capsys):
    Full(monkeypatch, writes)
    word, why = bench()
    assert word == "failed" and "No space left" in why and "\n" not in why
    if writes:
        result = json.loads(bench.file.read_text("utf-8"))
        assert len(result["rows"]) == writes and result["run"]["status"] == "running"
    assert not bench.file.parent.exists() or [p.name for p in bench.file.parent.iterdir()] == (["small.json"] if writes else [])
    assert "the last row is not saved" in capsys.readouterr().err


def test_a_full_disk_in_truth(tmp_path):
    path = tmp_path / "card" / "lab.json"
    runner.write(path, {"n": 1})
    code = f"import sys, resource, signal, pathlib; sys.path.insert(0, {str(TOP / 'examples')!r}); import run; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000)); run.write(pathlib.Path({str(path)!r}), {{'n': 'x' * 20000}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "OSError" in done.stderr
    assert json.loads(path.read_text()) == {"n": 1} and os.listdir(path.parent) == ["lab.json"]


@pytest.mark.parametrize("row", ['{"S": object(), "part": "b"}', '{"S": {1, 2}, "part": "b"}', '{1.5: {}, (1, 2): 3, "S": 9, "part": "b"}'])
def test_a_row_that_json_cannot_say_ends_its_lab_alone_and_keeps_the_rows_before(bench, row, capsys):
    word, why = bench(LAB.replace('    yield {"part": "b"', f'    yield {row}\n    yield {{"part": "b"'))
    assert word == "failed" and "TypeError" in why
    result = json.loads(bench.file.read_text("utf-8"))
    assert [one["S"] for one in result["rows"]] == [1, 2] and os.listdir(bench.file.parent) == ["small.json"]


@pytest.mark.parametrize("row", ["5", "None", "[1]", "'text'"])
def test_a_row_that_is_no_dict_is_a_failure_with_the_rows_before(bench, row):
    word, why = bench(LAB.replace('    yield {"part": "b"', f'    yield {row}\n    yield {{"part": "b"'))
    result = json.loads(bench.file.read_text("utf-8"))
    assert word == "failed" and len(result["rows"]) == 2 and result["run"]["status"] == "failed"


def test_half_a_character_of_a_kernel_s_name_ends_nothing(folder):
    folder.lab("odd", LAB.replace('"k<1>"', '"k\\udc80"').replace('return f"S =', 'return f"\\udc80 S ='))
    done = folder.run("odd", "--commit", SHA, "--clean")
    assert done.returncode == 0, done.stderr
    text = (folder.path / "results" / "nvidia-h200" / "odd.json").read_text("utf-8")
    assert results.strict_json(text)["rows"][0]["kernel"] == "k?"


@pytest.mark.parametrize("where", ["check", "import", "measure", "late"])
def test_a_lab_that_calls_exit_has_not_succeeded(folder, where):
    text = {"check": LAB.replace("def check(): pass", "def check(): raise SystemExit(0)"), "import": "raise SystemExit(0)\n" + LAB, "measure": LAB.replace("def measure():", "def measure():\n    raise SystemExit(0)"),
            "late": LAB.replace('    yield {"part": "b"', '    raise SystemExit(0)\n    yield {"part": "b"')}[where]
    folder.lab("a_quits", text)
    folder.lab("b_good")
    done = folder.run("--commit", SHA, "--clean")
    assert done.returncode == 1 and "a_quits: failed: SystemExit: 0" in done.stderr and "1 of 2 labs failed: a_quits" in done.stderr and "Traceback" not in done.stderr
    assert folder.result("b_good")["run"]["status"] == "ok"
    if where == "late":
        assert folder.result("a_quits")["run"]["status"] == "failed" and len(folder.result("a_quits")["rows"]) == 2


@pytest.mark.parametrize("text", [b"def measure(:\n", b"\xff\xfe\x00", b"x = 1\x00\n", b"x = " + b"(" * 5000], ids=["syntax", "encoding", "nul", "deep"])
def test_a_neighbour_that_is_no_python_is_named_and_the_others_run(folder, text):
    folder.lab("good")
    (folder.path / "broken.py").write_bytes(text)
    assert folder.run("good").returncode == 0
    done = folder.run()
    assert done.returncode == 1 and "1 of 2 labs failed: broken" in done.stderr and "Traceback" not in done.stderr


def test_a_link_in_the_place_of_a_result_is_replaced_and_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("kept")
    (tmp_path / "card").mkdir()
    (tmp_path / "card" / "lab.json").symlink_to(secret)
    (tmp_path / "card" / f".lab.json.{os.getpid()}-{threading.get_ident()}.part").symlink_to(secret)
    runner.write(tmp_path / "card" / "lab.json", {"n": 1})
    assert secret.read_text() == "kept" and not (tmp_path / "card" / "lab.json").is_symlink() and os.listdir(tmp_path / "card") == ["lab.json"]


@pytest.mark.parametrize("what", ["a file in the folder's place", "a folder in the file's place"])
def test_a_place_that_cannot_be_written_is_told_in_a_line(bench, what):
    bench.file.parent.parent.mkdir()
    if what.startswith("a file"):
        bench.file.parent.write_text("x")
    else:
        (bench.file / "inner").mkdir(parents=True)
    word, why = bench()
    assert word == "failed" and "small.json" in why or "nvidia-h200" in why
    assert "\n" not in why


# compare.py and tools/results.py: what goes into a pull request

@pytest.mark.parametrize("poison", ["<script>alert(1)</script>", "x | y", "a\nb", "[a](javascript:x)", "@someone", "`x`", "<!--", "</details>", "\\|"], ids=ascii)
def test_a_report_in_markdown_holds_no_markup_of_a_result(poison):
    one, two = whole(poison, poison), whole(poison, poison)
    for result, kernel in ((one, poison), (two, poison + "!")):
        result["run"].update(status="failed", error=poison)
        result["rows"][1]["impl"] = "another"
        result["rows"][0].update(kernel=kernel)
    text = compare.report({"card": {"lab": one}}, {"card": {"lab": two, "other": two}}, markdown=True)[0]
    text = text.replace("<details><summary>rows</summary>", "", 1).replace("</details>", "", 1)
    assert not re.search(r"<|@|(?<!\\)[\[`]", text), text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) >= 3 and all(len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 6 for line in table), table


@pytest.mark.parametrize("change", [
    lambda r: r["run"].update(started=5), lambda r: r["source"].update(commit=7), lambda r: r["source"].update(sha256=None), lambda r: r["machine"].update(gpu=["x"]), lambda r: r["software"].update(torch={}), lambda r: r.update(machine=[]), lambda r: r.update(rows={"a": 1}),
    lambda r: r["rows"][0].update(S=[1]), lambda r: r["rows"][0].update(S={}), lambda r: r["rows"][0].update(ms=10**400), lambda r: r["run"].update(status=["ok"]), lambda r: r["run"].update(status="failed", error=[1]), lambda r: r.update(run=None)])
def test_a_result_of_wrong_types_is_no_result(tmp_path, change):
    result = whole()
    change(result)
    (tmp_path / "lab.json").write_text(json.dumps(result))
    with pytest.raises(compare.Problem, match="is no result"):
        compare.read_result(tmp_path / "lab.json")


@pytest.mark.parametrize("what", ["link", "folder", "huge", "twice", "overflow", "name", "card"])
def test_a_damaged_artifact_is_refused_before_anything_is_copied(tmp_path, what):
    folder = tmp_path / "measured" / "results-card" / "card"
    folder.mkdir(parents=True)
    file = folder / "lab.json"
    file.write_text(GOOD)
    assert list(tool_of_results.whole(tmp_path)) == [("card", "lab")]
    if what == "link":
        file.rename(tmp_path / "real")
        file.symlink_to(tmp_path / "real")
    elif what == "folder":
        (folder / "x.json").mkdir()
    elif what in ("name", "card"):
        file.rename(folder / "a b.json") if what == "name" else folder.rename(folder.with_name("..x"))
    else:
        file.write_text(BROKEN[{"huge": "huge", "twice": "name twice", "overflow": "overflow"}[what]])
    with pytest.raises(tool_of_results.Stop, match="is damaged"):
        tool_of_results.whole(tmp_path)


def test_what_became_of_the_labs_is_said_without_markup(tmp_path):
    (tmp_path / "results-x").mkdir()
    (tmp_path / "results-x" / "outcome.txt").write_bytes(b"lab: <script>alert(1)</script> \xff [a](javascript:x) @someone\n")
    said = tool_of_results.summary(tmp_path)
    assert "<script" not in said and "@" not in said and "\\[a]" in said


# Graders: python grade_x.py mine.py, the grader alone in a folder

RIGHT = exercises.source("online_row")
WRONG = "def online_row(stream):\n    return [0.25, 0.25]\n"
LOOK = """
import gc, sys
def hunt(frame):
    while frame is not None:
        if "expected" in frame.f_locals:
            return frame.f_locals["expected"]
        frame = frame.f_back
"""
ENGINE = WORDS["en"].graders.engine
LOOKS, CHANGES = ENGINE.looks.text.split("{")[0], ENGINE.meddles.text.split("{file}")[1].split("{name}")[0]   # "…looks at what runs it (", " changes "
LIES = {   # name: (text of the file, status, what is said)
    # exits, raises, hangs, allocates
    "os._exit": ("import os\ndef online_row(stream):\n    os._exit(0)\n", 1, "SystemExit"),
    "os._exit at once": ("import os\nos._exit(0)\n", 2, "fails before anything is called: SystemExit"),
    "posix._exit": ("import posix\ndef online_row(stream):\n    posix._exit(0)\n", 1, "SystemExit"),
    "BaseException": ("class Odd(BaseException): pass\ndef online_row(stream):\n    raise Odd('why')\n", 1, "Odd: why (line 3: raise Odd('why'))"),
    "BaseException at once": ("raise BaseException('why')\n", 2, "BaseException: why"),
    "GeneratorExit": ("def online_row(stream):\n    raise GeneratorExit\n", 1, "GeneratorExit"),
    "KeyboardInterrupt": ("def online_row(stream):\n    raise KeyboardInterrupt\n", 130, ENGINE.stopped.text),
    "an error without text": ("class Odd(Exception):\n    def __str__(self): raise ValueError\ndef online_row(stream):\n    raise Odd\n", 1, "Odd (line 4"),
    "allocates": ("def online_row(stream):\n    return bytearray(10**15)\n", 1, "MemoryError"),
    "allocates bit by bit": ("import resource\nresource.setrlimit(resource.RLIMIT_AS, (2**28, 2**28))\ndef online_row(stream):\n    kept = []\n    while True: kept.append(bytearray(2**26))\n", 1, "MemoryError"),
    "hangs in C": ("def online_row(stream):\n    return sum(iter(int, 1))\n", 1, "Timeout"),
    "sleeps": ("import time\ndef online_row(stream):\n    time.sleep(100)\n", 3, ENGINE.late.format(seconds=1)),
    # wrong types
    "a generator": ("def online_row(stream):\n    yield 1.0\n", 1, "generator"),
    "itself": ("def online_row(stream):\n    x = []\n    x.append(x)\n    return x\n", 1, ENGINE["no"].text),
    "an endless integer": ("def online_row(stream):\n    return [10**5000, 10**5000]\n", 1, "whose repr() raises ValueError"),
    "a large integer": ("def online_row(stream):\n    return [10**400, 10**400]\n", 1, ENGINE["no"].text),
    "no repr": ("class Odd:\n    def __repr__(self): raise ZeroDivisionError\ndef online_row(stream):\n    return Odd()\n", 1, "whose repr() raises ZeroDivisionError"),
    "a repr that is none": ("class Odd:\n    def __repr__(self): return 5\ndef online_row(stream):\n    return [Odd(), Odd()]\n", 1, "whose repr() raises TypeError"),
    "complex": ("def online_row(stream):\n    return [1j, 1j]\n", 1, "1j"), "bools": ("def online_row(stream):\n    return [True, True]\n", 1, "[True, True]"), "text": ("def online_row(stream):\n    return 'ok'\n", 1, "'ok'"),
    # lies
    "equal to all": ("class Odd:\n    __eq__ = lambda *a: True\n    __hash__ = None\n    __len__ = lambda s: 2\n    __iter__ = lambda s: iter([s, s])\n    __float__ = lambda s: 0.0\ndef online_row(stream):\n    return Odd()\n", 1, ENGINE["no"].text),
    "a class that claims to be float": (LOOK + "class Odd:\n    __class__ = float\n    def __float__(self): return hunt(sys._getframe())[0]\n    __eq__ = lambda *a: True\ndef online_row(stream):\n    return [Odd(), Odd()]\n", 1, ENGINE["no"].text),
    "an int with another value": (LOOK + "class Odd(int):\n    def __float__(self): return hunt(sys._getframe())[0]\n    __eq__ = lambda *a: True\ndef online_row(stream):\n    return [Odd(), Odd()]\n", 1, ENGINE["no"].text),
    "a list that asks": (LOOK + "class Odd(list):\n    def __len__(self): return 2\n    def __iter__(self): return iter(hunt(sys._getframe()))\n    __eq__ = lambda *a: True\ndef online_row(stream):\n    return Odd()\n", 1, ENGINE["no"].text),
    "a float that lies": ("class Odd(float):\n    __eq__ = lambda *a: True\n    __sub__ = __rsub__ = lambda *a: 0.0\n    __format__ = lambda *a: 1 / 0\ndef online_row(stream):\n    return [Odd(9), Odd(9)]\n", 1, "[9.0, 9.0]"),
    # patches
    **{f"builtins.{name}": (f"import builtins\ndef online_row(stream):\n    builtins.{name} = lambda *a, **k: {value}\n    return [9.0, 9.0]\n", 1, f"{CHANGES}builtins.{name}")
       for name, value in (("all", True), ("isinstance", True), ("map", "[True]"), ("len", 2), ("print", None), ("callable", True), ("setattr", None), ("dict", "{}"), ("Exception", None))},
    "builtins at once": ("import builtins\nbuiltins.all = lambda x: True\n" + WRONG, 2, f"mine.py{CHANGES}builtins.all"),
    "the grader": ("import __main__\ndef online_row(stream):\n    __main__.agrees = lambda *a: True\n    return [9.0, 9.0]\n", 1, f"{CHANGES}grader.agrees"),
    "the grader at once": ("import __main__\n__main__.agrees = lambda *a: True\n" + WRONG, 2, f"mine.py{CHANGES}grader.agrees"),
    "the grader's builtins": ("import __main__\n__main__.all = lambda *a: True\n" + WRONG, 2, f"mine.py{CHANGES}grader.all"),
    "the grader's properties": ("import __main__\n__main__.PROPERTIES = ()\n" + WRONG, 2, f"mine.py{CHANGES}grader.PROPERTIES"),
    "the grader's code": ("import __main__\ndef online_row(stream):\n    __main__.agrees.__code__ = (lambda got, expected: True).__code__\n    return [9.0, 9.0]\n", 1, f"{CHANGES}grader.agrees"),
    "the grader's class": ("import __main__\ndef online_row(stream):\n    __main__.Solution.expect = lambda *a: None\n    return [9.0, 9.0]\n", 1, f"{CHANGES}Solution.expect"),
    "random": ("import random\nrandom.Random.uniform = lambda *a: 0.0\n" + WRONG, 2, f"mine.py{CHANGES}random.Random.uniform"),
    "json": ("import json\njson.dumps = lambda *a, **k: 'forged'\n" + WRONG, 2, f"mine.py{CHANGES}json.dumps"),
    "tracemalloc": ("import tracemalloc\ntracemalloc.get_traced_memory = lambda: (0, 0)\n" + RIGHT, 2, f"mine.py{CHANGES}tracemalloc.get_traced_memory"),
    "tracemalloc stopped": (RIGHT.replace("def online_row", "def inner", 1) + "\ndef online_row(stream):\n    import tracemalloc\n    kept = list(stream)\n    tracemalloc.stop()\n    return inner(iter(kept))\n", 1, f"{CHANGES}tracemalloc"),
    "math": ("import math\nmath.isclose = lambda *a, **k: True\nmath.isnan = lambda x: True\n" + WRONG, 1, ENGINE["no"].text),
    "decimal": ("import decimal\ndecimal.getcontext().prec = 1\n" + WRONG, 1, ENGINE["no"].text),
    # looks
    "sys._getframe": (LOOK + "def online_row(stream):\n    return hunt(sys._getframe())\n", 1, LOOKS + "sys._getframe;"),
    "sys._getframe, caught": (LOOK + "def online_row(stream):\n    try:\n        return hunt(sys._getframe())\n    except BaseException:\n        return [9.0, 9.0]\n", 1, LOOKS),
    "inspect": (LOOK + "import inspect\ndef online_row(stream):\n    return hunt(inspect.currentframe())\n", 1, LOOKS),
    "a traceback": (LOOK + "def online_row(stream):\n    try:\n        1 / 0\n    except Exception as error:\n        return hunt(error.__traceback__.tb_frame)\n", 1, LOOKS + "tb_frame;"),
    "a generator's frame": (LOOK + "def online_row(stream):\n    def g():\n        yield hunt(h.gi_frame)\n    h = g()\n    return next(h)\n", 1, LOOKS + "gi_frame;"),
    "gc": (LOOK + "def online_row(stream):\n    for x in gc.get_objects():\n        if type(x) is list and len(x) == 2 and type(x[0]) is float: return x\n", 1, LOOKS + "gc.get_objects;"),
    "sys._current_frames": (LOOK + "def online_row(stream):\n    return hunt(next(iter(sys._current_frames().values())))\n", 1, LOOKS + "sys._current_frames;"),
    "sys.settrace": ("import sys\ndef online_row(stream):\n    sys.settrace(lambda *a: None)\n    return [9.0, 9.0]\n", 1, LOOKS + "sys.settrace;"),
}


def grade(tmp_path, name, text, *flags):
    exercises.put(tmp_path, f"grade_{name}")
    (tmp_path / "mine.py").write_text(text, "utf-8")
    done = subprocess.run([sys.executable, "-I", "-S", f"grade_{name}.py", "mine.py", "--lang", "en", "--seed", "3", *flags], cwd=tmp_path, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONUTF8": "1"})
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("what", LIES)
def test_a_lie_is_told_in_a_line_and_never_taken_for_right(tmp_path, what):
    text, status, said = LIES[what]
    got, shown = grade(tmp_path, "online_row", text, "--seconds", "1" if status == 3 or "Timeout" in said else "30")
    assert (got, said in shown) == (status, True), shown
    assert not re.search(r"(\d+) of \1 properties hold", shown) and ("Traceback" not in shown) and len(shown) < 20_000, shown


@pytest.mark.parametrize("what", ["builtins.all", "json", "sys._getframe", "BaseException", "builtins at once", "an endless integer"])
def test_the_page_is_told_the_same(tmp_path, what):
    status, said = grade(tmp_path, "online_row", LIES[what][0], "--json")
    data = json.loads(said)
    assert status == LIES[what][1] and not (data["results"] and all(one["passed"] for one in data["results"]))
    assert LIES[what][2] in data["problem"] + " ".join(one.get("got", "") for one in data["results"])


@pytest.mark.parametrize("name", exercises.NAMES)
def test_no_grader_lets_its_expected_values_be_read_from_the_stack(tmp_path, name):
    status, said = grade(tmp_path, name, LOOK + f"def {name}(*a, **k):\n    return hunt(sys._getframe())\n")
    assert status == 1 and LOOKS in said and not re.search(r"^ok ", said, re.M), said


@pytest.mark.parametrize("before", ["from collections import namedtuple\nPair = namedtuple('Pair', 'a b')", "import typing, dataclasses, math, logging", "import decimal\ndecimal.getcontext().prec = 1"], ids=["namedtuple", "imports", "decimal"])
def test_what_an_honest_solution_uses_is_no_lie(tmp_path, before):
    inner = "    import statistics, fractions\n    import warnings\n    warnings.warn('still slow', stacklevel=2)\n    print('here')\n    exec('x = 1')\n    return inner(stream)\n"
    status, said = grade(tmp_path, "online_row", f"{before}\n{RIGHT.replace('def online_row', 'def inner', 1)}\ndef online_row(stream):\n{inner}")
    assert status == 0 and re.search(r"(\d+) of \1 properties hold", said), said


def test_a_grader_leaves_the_process_as_it_was():
    grader = types.ModuleType("grader")
    exec(compile(exercises.source("grade_online_row"), "grade_online_row.py", "exec"), vars(grader))
    import builtins

    kept, end = builtins.all, os._exit
    found = grader.grade({"online_row": vars(load(LIES["builtins.all"][0]))["online_row"]}, seed=1)
    assert not found[0]["passed"] and builtins.all is kept and os._exit is end
    assert not grader.grade(vars(load(LIES["sys.settrace"][0]))["online_row"], seed=1)[0]["passed"] and sys.gettrace() is None
    assert sys._getframe() is not None, "only a solution is watched"


def load(text):
    module = types.ModuleType("mine")
    exec(compile(text, "mine.py", "exec"), vars(module))
    return module
