"""Formulas: what KaTeX only warns of is an error, one that fails names itself and its line, Markdown leaves them alone."""
import json
import re
import subprocess

import pytest
from core import tex
from core.errors import PageError
from support import LANGUAGES, TOP


@pytest.mark.parametrize("formula, right", [(r"\frac{1}{2}", True), (r"a*b*c + \ell_{j}", True), (r"\frac{1 ", False), (r"\nothing", False), ("€", False)])
def test_what_katex_only_warns_of_is_an_error(formula, right):
    done = subprocess.run(["node", TOP / "docs/hooks/katex.mjs"], cwd=TOP, input=json.dumps({"formulas": [[formula, True]]}) + "\n", capture_output=True, text=True, encoding="utf-8")
    answer, = json.loads(done.stdout)
    assert ("html" in answer) == right, answer


CENTRAL = {   # the formulas on which all else stands, a second time: page, TeX without blanks
    "a weight": ("lesson", r"w(x, y) &= \exp(x - y) && \text{if } y > -\infty"), "two minus infinities": ("lesson", r"w(x, y) &= 0 && \text{if } x = y = -\infty"),
    "the new maximum": ("lesson", r"m_{\text{new}} &= \max\bigl(m,\ \max_{j \in T} s_j\bigr)"), "the factor": ("lesson", r"\alpha &= w(m, m_{\text{new}})"), "weights of a tile": ("lesson", r"p_j &= w(s_j, m_{\text{new}})"),
    "the sum": ("lesson", r"\ell_{\text{new}} &= \alpha\, \ell + \textstyle\sum_{j \in T} p_j"), "the output": ("lesson", r"O_{\text{new}} &= \alpha\, O + \textstyle\sum_{j \in T} p_j\, v_j"),
    "merged maximum": ("lesson", r"m &= \max(m_a, m_b)"), "merged sum": ("lesson", r"\ell &= w(m_a, m)\,\ell_a + w(m_b, m)\,\ell_b"), "merged output": ("lesson", r"O &= w(m_a, m)\,O_a + w(m_b, m)\,O_b"),
    "merge by LSE": ("lesson", r"o &= \frac{u_1 o_1 + u_2 o_2}{u_1 + u_2}, & \text{lse} &= L + \ln(u_1 + u_2)"),
    "p again": ("backward", r"p &= \exp(s - \text{lse}), & dv &= p^\top do, & dp &= do\; v^\top"), "ds": ("backward", r"ds &= p \circ (dp - \text{delta}), & dq &= ds\; k / \sqrt d, & dk &= ds^\top q / \sqrt d"),
}


@pytest.mark.parametrize("name", CENTRAL)
def test_the_central_formulas_are_those_written_here(name):
    page, formula = CENTRAL[name]
    for lang in LANGUAGES:
        assert "".join(re.sub(r"\\text\{[^}]*\}", "", formula).split()) in "".join(re.sub(r"\\text\{[^}]*\}", "", (TOP / "docs" / lang / f"{page}.md").read_text("utf-8")).split()), f"{lang}/{page}: {name}"


def put(content, markdown=""):
    formulas = tex.find(content)
    return tex.place(content, formulas, [{"error": "no such macro"} if "nothing" in formula else {"html": f"[{formula}]"} for formula, _ in formulas], markdown)


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
