"""Formulas: what KaTeX only warns of is an error, one that fails names itself and its line, Markdown leaves them alone."""
import json
import subprocess

import pytest
from core import tex
from core.errors import PageError
from support import TOP


@pytest.mark.parametrize("formula, right", [(r"\frac{1}{2}", True), (r"a*b*c + \ell_{j}", True), (r"\frac{1 ", False), (r"\nothing", False), ("€", False)])
def test_what_katex_only_warns_of_is_an_error(formula, right):
    done = subprocess.run(["node", TOP / "docs/hooks/katex.mjs"], cwd=TOP, input=json.dumps({"formulas": [[formula, True]]}) + "\n", capture_output=True, text=True, encoding="utf-8")
    answer, = json.loads(done.stdout)
    assert ("html" in answer) == right, answer


def put(content, markdown=""):
    return tex.render(content, lambda found: [{"error": "no such macro"} if "nothing" in formula else {"html": f"[{formula}]"} for formula, _ in found], markdown)


def test_a_formula_reaches_the_renderer_as_it_was_written():
    written = r"a*b*c, m_{i}\,\ell_{j} < 1 & x"
    escaped = written.replace("&", "&amp;").replace("<", "&lt;")
    assert written in put(rf'<td><span class="arithmatex">\({escaped}\)</span></td>')


def test_markdown_in_a_formula_is_an_error():
    with pytest.raises(PageError, match="a<em>b</em>c"):
        put(r'<span class="arithmatex">\(a<em>b</em>c\)</span>')


def test_a_formula_that_fails_names_itself_and_its_line():
    with pytest.raises(PageError, match=r"formula '\\nothing': no such macro") as caught:
        put(r'<div class="arithmatex">\[\nothing\]</div>', "one\n\n$$\n\\nothing\n$$\n")
    assert caught.value.line == 4
