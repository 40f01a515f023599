"""The checker of the built site: silent on a site without SITE_URL (on the site as it is: test_site.py), and each rule speaks when its promise is broken."""
import gzip
import os
import re
import shutil
import subprocess
import sys

import check_site
import pytest
from support import SITE_URL, TOP

PAGE, ZH, HOME = "en/glossary/index.html", "zh/glossary/index.html", "index.html"


class Copy:
    """The built site in hard links: a file is replaced, never written into."""

    def __init__(self, site, folder):
        self.folder = folder
        shutil.copytree(site, folder, copy_function=os.link)

    def write(self, name, data):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)

    def edit(self, name, old, new):
        text = (self.folder / name).read_text("utf-8")
        assert re.search(old, text, re.S), f"{name} has no {old!r}"
        self.write(name, re.sub(old, lambda match: match.expand(new) if "\\g" in new else new, text, count=1, flags=re.S))

    def remove(self, name):
        (self.folder / name).unlink()


@pytest.fixture
def copy(site, tmp_path):
    return Copy(site, tmp_path / "copy")


def test_a_site_without_an_address_has_no_finding_and_no_address(site_without_address, tmp_path):
    findings = check_site.check(site_without_address)
    assert not findings, "\n".join(map(str, findings))
    with_address = check_site.check(site_without_address, SITE_URL)
    assert {"canonical", "sitemap", "preview"} <= {finding.rule for finding in with_address}
    edited = Copy(site_without_address, tmp_path / "site")
    edited.edit("en/index.html", "</head>", '<link rel="canonical" href="https://lesson.example/en/"></head>')
    assert [finding.rule for finding in check_site.check(edited.folder)] == ["canonical"]


def into(html):
    return PAGE, "</article>", html + "</article>"


# Each line: what is broken, the rule that speaks, what it says, and the breakage: (file, pattern, replacement), or files to write or remove.
BROKEN = [
    ("inline TeX", "raw_tex", r"raw TeX", into("<p>so $S^2$ bytes</p>")),
    ("an open formula", "raw_tex", r"raw TeX", into("<p>so $x bytes</p>")),
    ("a fraction", "raw_tex", r"raw TeX", into(r"<p>so \frac{1}{2}</p>")),
    ("a formula over an element", "raw_tex", r"raw TeX", into("<p>so $a <em>b</em> c$</p>")),
    ("display TeX", "raw_tex", r"raw TeX", into(r"<p>\[ x \]</p>")),
    ("TeX in the title", "raw_tex", r"without TeX", (PAGE, "<title>[^<]*", r"<title>Words of $\\ell$")),
    ("TeX in a label", "raw_tex", r"raw TeX", into('<p aria-label="the $S$">x</p>')),
    ("TeX in the description of a preview", "raw_tex", r"raw TeX", (PAGE, r'property="og:title" content="[^"]*', r'property="og:title" content="$\\ell$')),
    ("a formula not rendered", "formulas", r"not rendered", into('<span class="arithmatex">x</span>')),
    ("a formula without MathML", "formulas", r"MathML", ("en/lesson/index.html", r"<math [^>]*>", "<span>")),
    ("a formula without styles", "formulas", r"without their style sheet", ("en/lesson/index.html", r'<link[^>]*katex\.min\.css">', "")),
    ("styles without a formula", "formulas", r"without a formula", (PAGE, "</head>", '<link rel="stylesheet" href="../../assets/katex/katex.min.css"></head>')),
    ("a formula in a heading", "formulas", r"in a heading", ("en/lesson/index.html", '<h2 id="lab">', '<h2 id="lab"><span class="math"><math></math></span>')),
    ("a placeholder", "leftovers", r"left over", into("<p>it takes {{ lab.ms }} ms</p>")),
    ("a placeholder in code", "leftovers", r"left over", into("<pre><code>{{ lab.output }}</code></pre>")),
    ("a snippet marker", "leftovers", r"left over", into("<p>--8&lt;-- x</p>")),
    ("a snippet marker in code", "leftovers", r"left over", into("<pre># --8&lt;-- [start:x]\nx</pre>")),
    ("an attribute list", "leftovers", r"left over", into("<p>Title { #name }</p>")),
    ("an admonition", "leftovers", r"left over", into("<p>!!! note</p>")),
    ("a Markdown link", "leftovers", r"left over", into("<p>[x](lesson.md#y)</p>")),
    ("a note to oneself", "leftovers", r"left over", into("<p>TODO write</p>")),
    ("a placeholder in a label", "leftovers", r"left over", into('<p title="{{ lab.ms }}">x</p>')),
    ("the stand-in for an address", "leftovers", r"stand-in", into("<pre>curl ADDRESS-OF-THIS-SITE/x</pre>")),
    ("an empty block", "empty_code", r"empty code block", into("<pre><code><span> </span></code></pre>")),
    ("an id twice", "ids", r"'amdahl' stands twice", into('<p id="amdahl">x</p>')),
    ("an empty id", "ids", r"empty id", into('<p id="">x</p>')),
    ("a label of nothing", "ids", r"which is not on the page", into('<p aria-labelledby="nobody">x</p>')),
    ("a dead link", "links", r"no file en/nowhere/index.html", into('<a href="../nowhere/">x</a>')),
    ("a link without its slash", "links", r"is it en/lesson/index.html", into('<a href="../lesson">x</a>')),
    ("a dead anchor", "links", r"has no id 'nowhere'", into('<a href="../lesson/#nowhere">x</a>')),
    ("a dead anchor of the page", "links", r"has no id 'nowhere'", into('<a href="#nowhere">x</a>')),
    ("a dead Chinese anchor", "links", r"has no id '无'", into('<a href="#%E6%97%A0">x</a>')),
    ("a link to the host's root", "links", r"leaves the site", into('<a href="/repo/en/">x</a>')),
    ("a link out of the site", "links", r"leaves the site", into('<a href="../../../x/">x</a>')),
    ("a dead absolute link", "links", r"no file en/nowhere/index.html", into(f'<a href="{SITE_URL}en/nowhere/">x</a>')),
    ("a dead source set", "links", r"no file en/glossary/b.png", into('<img alt="x" src="../img/mark.svg" srcset="../img/mark.svg 1x, b.png 2x">')),
    ("a dead <use>", "links", r"no id 'gone'", into('<p aria-hidden="true"><svg><use href="#gone"/></svg></p>')),
    ("a dead <use> of old", "links", r"no file", into('<p aria-hidden="true"><svg><use xlink:href="x.svg#gone"/></svg></p>')),
    ("a dead address in a style", "links", r"no file", into('<p style="background: url(x.png)">x</p>')),
    ("a dead script", "links", r"no file", into('<script src="x.js"></script>')),
    ("a dead refresh", "links", r"no file", (PAGE, "</head>", '<meta http-equiv="refresh" content="3; url=../x/"></head>')),
    ("a script for a link", "links", r"make it a button", into('<a href="javascript:x()">x</a>')),
    ("a widget without a script", "links", r"has no script en/js/unknown.js", into('<p data-widget="unknown">x</p>')),
    ("a dead style sheet's address", "links_of_styles_and_scripts", r"no file", ("en/css/site.css", r"\A", '.x { background: url("x.png") } ')),
    ("a dead style import", "links_of_styles_and_scripts", r"no file", ("en/css/site.css", r"\A", '@import "x.css"; ')),
    ("a dead module", "links_of_styles_and_scripts", r"en/js/site.js: .*no file en/js/x.js", ("en/js/site.js", r"\A", 'import { x } from "./x.js";\n')),
    ("a dead late module", "links_of_styles_and_scripts", r"no file en/js/x.js", ("en/js/site.js", r"\A", 'const x = () => import("./x.js");\n')),
    ("a dead worker", "links_of_styles_and_scripts", r"no file en/js/x.js", ("en/js/python.js", r"\./python-worker\.js", "./x.js")),
    ("a dead part of a drawing", "links_of_styles_and_scripts", r"dead anchor #gone", ("img/mark.svg", "</svg>", '<use href="#gone"/></svg>')),
    ("a script of another host", "foreign_hosts", r"asks another host", into('<script src="https://cdn.example/x.js"></script>')),
    ("a picture of another host", "foreign_hosts", r"asks another host", into('<img alt="x" src="//cdn.example/x.png">')),
    ("a font of another host", "foreign_hosts", r"asks another host", ("en/css/site.css", r"\A", '@import url("https://fonts.example/x.css"); ')),
    ("a style of another host", "foreign_hosts", r"asks another host", into("<style>p { background: url(https://x.example/x.png) }</style>")),
    ("a form to another host", "foreign_hosts", r"asks another host", into('<form action="https://x.example/"></form>')),
    ("a ping", "foreign_hosts", r"asks another host", into('<a href="../lesson/" ping="https://x.example/">x</a>')),
    ("a connection ahead", "foreign_hosts", r"opens a connection", (PAGE, "</head>", '<link rel="preconnect" href="../"></head>')),
    ("a fetch in our script", "foreign_hosts", r"address of another host", ("en/js/site.js", r"\A", 'fetch("https://x.example/");\n')),
    ("a socket in our script", "foreign_hosts", r"address of another host", ("en/js/site.js", r"\A", "new WebSocket(`wss://x.example/`);\n")),
    ("a fetch without a scheme", "foreign_hosts", r"address of another host", ("en/js/site.js", r"\A", "fetch('//x.example/x');\n")),
    ("a known host in our script", "foreign_hosts", r"address of another host", ("en/js/site.js", r"\A", 'fetch("https://unpkg.com/mermaid");\n')),
    ("a fetch in a page", "foreign_hosts", r"address of another host", into('<script>fetch("https://x.example/")</script>')),
    ("a new host in the theme", "foreign_hosts", r"address of another host", ("en/assets/javascripts/workers/{search}", r"\A", 'fetch("https://x.example/");')),
    ("a Mermaid diagram", "foreign_hosts", r"a Mermaid diagram", into('<div class="mermaid">x</div>')),
    ("the theme's repository facts", "foreign_hosts", r"repository facts", into('<a href="../lesson/" data-md-component="source">x</a>')),
    ("Python packages", "foreign_hosts", r"a Python package", ("assets/pyodide/pyodide-lock.json", r'"packages": \{\}', '"packages": {"x": {}}')),
    ("no lang", "language", r"no lang", (PAGE, '<html lang="en"', "<html")),
    ("another lang", "language", r"lang is 'de'", (PAGE, '<html lang="en"', '<html lang="de"')),
    ("an empty lang", "language", r"an empty lang", into('<p lang="">x</p>')),
    ("Chinese on an English page", "language", r"Chinese text outside", into("<p>显存</p>")),
    ("a drawing in the other language", "language", r"a drawing's text in zh", into('<p aria-hidden="true"><svg><text lang="zh-CN">x</text></svg></p>')),
    ("no title", "head", r"0 titles", (PAGE, "<title>.*?</title>", "")),
    ("an empty title", "head", r"1 titles \[''\]", (PAGE, "<title>.*?</title>", "<title> </title>")),
    ("another page's title", "head", r"the same title as", (PAGE, "<title>.*?</title>", "<title>Decode - FlashAttention, measured</title>")),
    ("no viewport", "head", r"no viewport", (PAGE, '<meta name="viewport"[^>]*>', "")),
    ("no charset", "head", r"no charset", (PAGE, '<meta charset="utf-8">', "")),
    ("two first headings", "head", r"2 first-level headings", into("<h1>x</h1>")),
    ("a picture without a name", "pictures", r"without alternative text", into('<img src="../img/mark.svg">')),
    ("a picture with an empty name", "pictures", r"without alternative text", into('<img src="../img/mark.svg" alt="">')),
    ("a drawing without a role", "pictures", r"without role=img", into('<svg aria-label="x"><text>x</text></svg>')),
    ("a drawing without a name", "pictures", r"without a name", into('<figure><svg role="img"><text>x</text></svg></figure>')),
    ("a drawing with an empty title", "pictures", r"without a name", into('<svg role="img"><title> </title></svg>')),
    ("a canvas without a name", "pictures", r"without a name", into("<canvas></canvas>")),
    ("no switch to the other language", "pairs", r"no link with hreflang=zh-CN", (PAGE, 'hreflang="zh-CN"', "")),
    ("a switch to another page", "pairs", r"leads to zh/index.html, not to zh/glossary", (PAGE, 'href="../../zh/glossary/" hreflang', 'href="../../zh/" hreflang')),
    ("a language that is not there", "pairs", r"no language of the site", into('<a hreflang="fr" href="../lesson/">x</a>')),
    ("no choice on the root page", "pairs", r"no link with hreflang=en", (HOME, 'href="en/" hreflang="en"', 'href="en/"')),
    ("no canonical link", "canonical", r"canonical missing", (PAGE, '<link rel="canonical"[^>]*>', "")),
    ("another page's canonical link", "canonical", r"en/lesson/", (PAGE, r'(<link rel="canonical" href="[^"]*)glossary', r"\g<1>lesson")),
    ("a canonical 404", "canonical", r"404.html: .*not absent", ("404.html", "</head>", f'<link rel="canonical" href="{SITE_URL}404.html"></head>')),
    ("a 404 without Chinese", "page_404", r"nothing in Chinese", ("404.html", r"<p lang=.zh-CN.>.*?(<a href=\S+?>).*?</p>", r"\g<1>zh</a>")),
    ("a 404 without English", "page_404", r"nothing in English", ("404.html", r"<p lang=.en.>.*?(<a href=\S+?>).*?</p>", r"\g<1>en</a>")),
    ("a 404 without a way back", "page_404", r"no link to zh/", ("404.html", r"/repo/zh/", "/repo/en/")),
    ("a 404 with relative styles", "page_404", r"the relative address", ("404.html", r"/repo/css/", "css/")),
    ("a Chinese 404 that begins in English", "page_404", r"zh/404.html: .*does not begin in its language", ("zh/404.html", r"(<p lang=.zh-CN.*?</p>)\s*(<p lang=.en.*?</p>)", r"\g<2>\g<1>")),
    ("a sitemap without a page", "sitemap", r"en/decode/ is missing", ("en/sitemap.xml", r"<url>\s*<loc>[^<]*decode/</loc>.*?</url>", "")),
    ("a sitemap with a page too many", "sitemap", r"is no page", ("en/sitemap.xml", "</urlset>", f'<url><loc>{SITE_URL}en/404.html</loc></url></urlset>')),
    ("a sitemap with a wrong pair", "sitemap", r"hreflang pairs", ("en/sitemap.xml", 'hreflang="zh-CN" href="[^"]*"', f'hreflang="zh-CN" href="{SITE_URL}zh/x/"')),
    ("a sitemap that is no XML", "sitemap", r"not XML", ("en/sitemap.xml", "</urlset>", "")),
    ("an index without a language", "sitemap", r"zh/sitemap.xml is missing", ("sitemap.xml", r"<sitemap><loc>[^<]*zh/.*?</sitemap>", "")),
    ("a preview without a title", "preview", r"og:title is missing", (PAGE, '<meta property="og:title"[^>]*>', "")),
    ("a preview without a card", "preview", r"twitter:card is missing", (PAGE, '<meta name="twitter:card"[^>]*>', "")),
    ("a preview without a picture", "preview", r"og:image is missing", (PAGE, '<meta property="og:image" [^>]*>', "")),
    ("a preview with a picture that is not there", "preview", r"no PNG of this site", (PAGE, "img/preview.png", "img/other.png")),
    ("a preview with a picture of another host", "preview", r"no PNG of this site", (PAGE, '"og:image" content="[^"]*"', '"og:image" content="https://x.example/x.png"')),
    ("a preview with a wrong size", "preview", r"og:image is 1200 × 630", (PAGE, '"og:image:width" content="1200"', '"og:image:width" content="600"')),
    ("a preview with another address", "preview", r"not the page's address", (PAGE, r'("og:url" content="[^"]*)glossary', r"\g<1>lesson")),
    ("a preview in the wrong language", "preview", r"og:locale", (PAGE, '"og:locale" content="en_US"', '"og:locale" content="zh_CN"')),
    ("no description", "preview", r"description \[\]", (PAGE, '<meta name="description"[^>]*>', "")),
    ("two unlike descriptions", "preview", r"the same in both", (PAGE, '"og:description" content="[^"]*"', '"og:description" content="Another text that is long enough to be one, and unlike."')),
]


@pytest.mark.parametrize("rule, says, breakage", [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_each_breakage_is_found_and_nothing_else(copy, rule, says, breakage):
    name, old, new = breakage
    if "{search}" in name:
        name = next(path.relative_to(copy.folder).as_posix() for path in copy.folder.glob("en/assets/javascripts/workers/search.*.js"))
    copy.edit(name, old, new)
    if name.endswith("sitemap.xml"):
        copy.write(f"{name}.gz", gzip.compress((copy.folder / name).read_bytes()))
    only(check_site.check(copy.folder, SITE_URL), rule, says)


def only(findings, rule, says):
    assert findings, "nothing was found"
    assert {finding.rule for finding in findings} == {rule}, "\n".join(map(str, findings))
    assert any(re.search(says, str(finding)) for finding in findings), "\n".join(map(str, findings))
    assert all(finding.file and finding.place and finding.what and finding.mend for finding in findings)


def describe(copy, text, name=PAGE):
    for which in ('name="description"', 'property="og:description"'):
        copy.edit(name, f'{which} content="[^"]*"', f'{which} content="{text}"')


def test_an_english_page_at_a_chinese_address_is_found(copy):
    head, body = (copy.folder / ZH).read_text("utf-8").split("</head>")
    copy.write(ZH, head + "</head>" + re.sub("[\u3000-\u9fff\uff00-\uffef]+", "x", body))
    only(check_site.check(copy.folder, SITE_URL), "language", r"no Chinese text on a Chinese page")


@pytest.mark.parametrize("text, name, says", [
    ("A page in English of which somebody says in Chinese what it is: 显存", PAGE, r"not in the page's language"),
    ("A page in Chinese that is described in English, and at some length.", ZH, r"not in the page's language"),
    ("Too short", PAGE, r"9 characters"),
    ("FlashAttention from the algorithm to measured bytes, in English and Chinese", PAGE, r"the same as index.html|the same as en/glossary"),
])
def test_a_description_is_the_page_s_own(copy, text, name, says):
    describe(copy, text, name)
    only(check_site.check(copy.folder, SITE_URL), "preview", says)


def test_a_page_in_one_language_is_found(copy):
    copy.write("en/extra/index.html", (copy.folder / PAGE).read_text("utf-8").replace("/glossary/", "/extra/").replace("<title>", "<title>Extra: ").replace("words of this site", "other words of this site"))
    findings = check_site.check(copy.folder, SITE_URL)
    assert any(str(finding).startswith("en/extra/index.html: page: in en only: write docs/zh") for finding in findings)
    assert {finding.rule for finding in findings} == {"pairs", "links", "sitemap"}   # its switch leads nowhere, no sitemap names it


@pytest.mark.parametrize("name, rule, says", [
    ("404.html", "page_404", r"there is no 404 page"),
    ("zh/sitemap.xml", "sitemap", r"there is no sitemap"),
    ("assets/katex/fonts/KaTeX_Size1-Regular.woff2", "links_of_styles_and_scripts", r"katex\.min\.css: .*KaTeX_Size1-Regular"),
    ("zh/js/site.js", "links", r"no file zh/js/site.js"),
    ("img/preview.png", "preview", r"no PNG of this site"),
])
def test_a_file_that_is_gone_is_found(copy, name, rule, says):
    copy.remove(name)
    only(check_site.check(copy.folder, SITE_URL), rule, says)


@pytest.mark.parametrize("name, data, says", [
    ("en/js/heavy.js", "x" * 40_000, r"40,000 bytes, over its budget of 32,000"),
    ("en/heavy.json", "x" * 500_000, r"over its budget"),
    ("en/film.mp4", "x", r"no budget for this kind"),
    ("zh/search/search_index.json", os.urandom(300_000), r"compressed, over its budget of 200,000"),
])
def test_a_file_over_its_budget_is_found(copy, name, data, says):
    copy.write(name, data)
    only(check_site.check(copy.folder, SITE_URL), "budgets", says)


def test_a_site_over_its_budget_is_found(copy, monkeypatch):
    monkeypatch.setattr(check_site, "WHOLE", 1_000_000)
    only(check_site.check(copy.folder, SITE_URL), "budgets", r"\.: folder: [\d,]+ bytes, over the budget of 1,000,000")


def test_an_old_packed_sitemap_is_found(copy):
    copy.write("en/sitemap.xml.gz", gzip.compress(b"<urlset/>"))
    only(check_site.check(copy.folder, SITE_URL), "sitemap", r"differs from the sitemap beside it")


def test_prices_code_and_marked_chinese_are_no_findings(copy):
    copy.edit(*into(
        "<p>from $2 to $3.50 an hour</p><pre>echo $HOME $PATH \\frac</pre><p>the word <span lang=\"zh-CN\">显存</span></p>"
        "<pre>f'{{x}}' # TODO</pre><img src=\"../img/mark.svg\" alt=\"\" role=\"presentation\"><a href=\"https://example.org/\">x</a>",
    ))
    assert not check_site.check(copy.folder, SITE_URL)


def test_every_rule_has_a_breakage():
    source = (TOP / "tests/test_check_site.py").read_text("utf-8")
    for rule in check_site.RULES:
        assert f'"{rule.__name__}", r"' in source, f"no breakage speaks for the rule {rule.__name__}"


def test_the_command_prints_a_line_for_each_and_says_so_in_its_status(copy):
    def run(*arguments):
        return subprocess.run([sys.executable, TOP / "tools/check_site.py", *arguments], capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONIOENCODING": "ascii:strict"})

    clean = run(copy.folder, "--url", SITE_URL)
    assert (clean.returncode, clean.stdout) == (0, "") and not clean.stderr
    copy.edit(*into('<p id="amdahl">显存</p>'))
    broken = run(copy.folder)
    assert broken.returncode == 1 and len(broken.stdout.splitlines()) == 2 and "2 findings" in broken.stderr
    assert re.search(r'^en/glossary/index.html: line \d+ <p id="amdahl">: the id .amdahl. stands twice: give one', broken.stdout, re.M)
    nothing = run(copy.folder / "img")
    assert nothing.returncode == 2 and "Run `make site`" in nothing.stderr
