"""The built site: links, ids, third parties, formulas, search, provenance; and what must break the build."""
import html.parser
import json
import re
import urllib.parse

import pytest
from support import LANGUAGES, SITE_URL, TOP

RESULT = "examples/results/nvidia-h200/flash_vs_naive_memory.json"
CODE = ("code", "pre", "annotation", "textarea")


class Document(html.parser.HTMLParser):
    """ids, links (tag, attribute, address), styles and scripts written into the page, what is nameless, and visible text of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.text, self.prose, self.hidden, self.code, self.inline, self.nameless = [], [], [], [], 0, 0, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            elif name in ("href", "src", "poster", "srcset", "data", "xlink:href") and value is not None:
                self.links.append((tag, name, value, dict(attrs).get("rel")))
            elif name == "style":
                self.inline.append(value)
        if tag == "img" and not dict(attrs).get("alt"):
            self.nameless.append(self.get_starttag_text())
        self.hidden += tag in ("script", "style")
        self.code += tag in CODE

    def handle_endtag(self, tag):
        self.hidden -= tag in ("script", "style")
        self.code -= tag in CODE

    def handle_data(self, data):
        (self.inline if self.hidden else self.text).append(data)
        if not self.hidden and not self.code:
            self.prose.append(data)


@pytest.fixture(scope="module")
def documents(site):
    return {path.relative_to(site).as_posix(): Document(path.read_text("utf-8")) for path in site.rglob("*.html")}


def test_every_page_of_both_languages_is_there(site):
    for lang in LANGUAGES:
        for path in (TOP / "docs" / lang).rglob("*.md"):
            page = path.relative_to(TOP / "docs" / lang).with_suffix("")
            folder = page.parent if page.name == "index" else page
            assert (site / lang / folder / "index.html").is_file(), f"{lang}/{page}"


def test_internal_links_and_anchors_resolve_wherever_the_site_is_served(site, documents):
    wrong = []
    for name, document in documents.items():
        base = f"http://any.host/some/path/{name}" if not name.endswith("404.html") else SITE_URL
        for tag, attribute, link, rel in document.links:
            if re.match(r"(https?:|mailto:|data:)", link) and not link.startswith(SITE_URL):
                continue
            target = urllib.parse.urljoin(base, link)
            path = urllib.parse.unquote(urllib.parse.urlsplit(target).path)
            prefix = "/some/path/" if target.startswith("http://any.host") else "/repo/"
            if not path.startswith(prefix):
                wrong.append(f"{name}: {link} leaves the site")
                continue
            file = path.removeprefix(prefix)
            file = file + "index.html" if file == "" or file.endswith("/") else file
            anchor = urllib.parse.unquote(urllib.parse.urlsplit(target).fragment)
            if not (site / file).is_file():
                wrong.append(f"{name}: <{tag} {attribute}={link}> has no file {file}")
            elif anchor and file in documents and anchor not in documents[file].ids:
                wrong.append(f"{name}: {link} has no anchor #{anchor} in {file}")
    assert not wrong, "\n".join(wrong)


def test_what_others_made_is_named_with_its_licence(site):
    notices = (TOP / "THIRD-PARTY.md").read_text("utf-8")
    for folder in {path.name for path in site.glob("assets/*") if path.is_dir()} - {"images"}:
        assert f"`assets/{folder}" in notices, f"THIRD-PARTY.md does not say whose assets/{folder} is"
    for package in json.loads((TOP / "package.json").read_text("utf-8"))["dependencies"]:
        assert package in notices.lower(), package


def test_ids_are_unique_and_not_empty(documents):
    for name, document in documents.items():
        twice = {i for i in document.ids if document.ids.count(i) > 1}
        assert not twice and "" not in document.ids, f"{name}: ids {twice or 'empty'}"


def test_nothing_is_loaded_from_another_host(site, documents):
    for name, document in documents.items():
        for tag, attribute, link, rel in document.links:
            loads = tag != "a" and attribute != "href" or tag in ("link", "image", "use") and rel != "canonical"
            assert not (loads and re.match(r"(https?:)?//", link)), f"{name}: <{tag} {attribute}={link}> asks another host"
        for text in document.inline:
            assert not re.search(r"""(?:["'`(]|@import\s+)\s*(?:https?:)?//""", text), f"{name}: {text[:200]}"
    for path in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        for address in re.findall(r"url\(\s*['\"]?([^)'\"]+)|@import\s+['\"]([^'\"]+)", path.read_text("utf-8")):
            address = next(filter(None, address))
            assert not re.match(r"(https?:)?//", address), f"{path.relative_to(site)}: {address}"
    for path in [*(site / "en/js").glob("*.js"), *(site / "js").glob("*.js")]:
        assert not re.search(r"""https?://|["'`]//""", path.read_text("utf-8")), path.name


def test_pages_say_their_language_and_title_and_name_their_pictures(site, documents):
    for name, document in documents.items():
        page = (site / name).read_text("utf-8")
        lang = "zh" if name.startswith("zh/") and name != "zh/404.html" else "en"
        assert re.search(rf'<html[^>]* lang="{lang}', page) and re.search(r"<title>\s*[^<\s]", page), f"{name}: language or title"
        assert 'name="viewport"' in page and 'name="description"' in page, f"{name}: viewport or description"
        assert not document.nameless, f"{name}: a picture without a name for those who do not see it: {document.nameless}"
        for figure in re.findall(r'<figure class="(?:chart|drawing)".*?<svg([^>]*)>', page, re.S):
            assert re.search(r'role="img"', figure) and re.search(r'aria-label(?:ledby)?="[^"]', figure), f"{name}: a figure without a name: {figure}"
        for reference in re.findall(r'aria-labelledby="([^"]+)"', page):
            assert set(reference.split()) <= set(document.ids), f"{name}: no element {reference}"
        other = re.search(rf'<(?:text|title|desc|tspan)\b[^>]* lang="(?!{lang})[^>]*>', page)
        assert not other, f"{name}: a drawing in another language: {other and other[0]}"


def test_pages_with_a_formula_and_no_others_have_its_styles(site):
    for path in site.rglob("*.html"):
        page = path.read_text("utf-8")
        assert ('class="math"' in page) == bool(re.search(r'<link[^>]*katex\.min\.css"', page)), path
        assert page.count('class="math"') == page.count("<math ") and "katex-error" not in page and "#cc0000" not in page, path


def test_no_raw_tex_placeholder_or_snippet_is_left(documents):
    for name, document in documents.items():
        text = "".join(document.text)
        for leftover in (r"\$\$", r"\\\[", r"\\\(", r"\{\{\s*\w+[.@]", r"--8<--", r"data-figure"):
            assert not re.search(leftover, text), f"{name}: {leftover} is left on the page"
        raw = re.search(r".{0,30}(?:\$|\\[a-z]{2}|_\{).{0,30}", "".join(document.prose))
        assert not raw, f"{name}: TeX is left on the page: {raw and raw[0]}"


def test_every_formula_is_rendered_once_with_mathml(site):
    for lang in LANGUAGES:
        page = (site / lang / "lesson/index.html").read_text("utf-8")
        assert page.count('class="math"') == page.count("<math ") > 20 and "arithmatex" not in page


def test_no_code_block_is_empty_and_each_example_is_served_byte_for_byte(site):
    for path in site.rglob("*.html"):
        for code in re.findall(r"<pre[^>]*>(.*?)</pre>", path.read_text("utf-8"), re.S):
            assert re.sub(r"<[^>]*>|\s", "", code), f"{path}: an empty code block"
    for path in (TOP / "examples").rglob("*.py"):
        assert (site / path.relative_to(TOP)).read_bytes() == path.read_bytes()
        assert b"8<" not in path.read_bytes()
    for lang in LANGUAGES:
        page = (site / lang / "lesson/index.html").read_text("utf-8")
        assert re.search(r'<a href="../../examples/online_softmax.py"[^>]* download[^>]*>online_softmax.py</a>', page), "a block's title leads to its file"


def test_search_finds_what_readers_type(site):
    for lang, queries in {
        "zh": ["在线 softmax", "显存", "共享内存", "分块"], "en": ["online softmax", "out of memory"],
    }.items():
        index = json.loads((site / lang / "search/search_index.json").read_text("utf-8"))
        assert "katex" not in json.dumps(index)
        for query in queries:
            for word in query.split():
                assert any(word.lower() in _tokens(doc, index["config"]["separator"]) for doc in index["docs"]), f"{lang}: {word}"


def _tokens(doc, separator):
    text = re.sub(r"<[^>]*>", " ", doc["title"] + " " + doc["text"]).lower()
    return set(re.split(separator, text))


def test_sitemaps_pair_the_languages(site):
    index = (site / "sitemap.xml").read_text("utf-8")
    for lang in LANGUAGES:
        assert f"<loc>{SITE_URL}{lang}/sitemap.xml</loc>" in index
        sitemap = (site / lang / "sitemap.xml").read_text("utf-8")
        pages = sorted(p.parent.relative_to(site / lang).as_posix() for p in (site / lang).rglob("index.html"))
        assert sitemap.count("<url>") == len(pages)
        for page in pages:
            tail = "" if page == "." else page + "/"
            assert f"<loc>{SITE_URL}{lang}/{tail}</loc>" in sitemap
            for code, folder in {"en": "en", "zh-CN": "zh"}.items():
                assert f'hreflang="{code}" href="{SITE_URL}{folder}/{tail}"' in sitemap


def test_report_and_repository_links_come_from_one_setting(site, tree):
    assert "report" not in re.findall(r'class="(\w+)"', (site / "en/lesson/index.html").read_text("utf-8"))
    assert tree.build(REPO_URL="https://code.example/lesson").returncode == 0
    for lang in LANGUAGES:
        page = tree.page(f"{lang}/lesson/index.html")
        assert 'href="https://code.example/lesson"' in page and 'href="https://code.example/lesson/issues/new?title=' in page


def test_the_404_page_speaks_both_languages_and_finds_its_styles(site):
    page = (site / "404.html").read_text("utf-8")
    assert "There is no page" in page and "没有页面" in page
    assert 'href="/repo/css/plain.css"' in page and 'href="/repo/en/"' in page and 'href="/repo/zh/"' in page


# What must turn the build red or change the pages.

def test_a_number_edited_in_the_json_changes_on_the_pages_of_both_languages(tree):
    result = json.loads(tree.path(RESULT).read_text("utf-8"))
    for row in result["rows"]:
        if row.get("part") == "grid" and row["S"] == 4096 and row["kv_heads"] == 28 and not row["causal"]:
            row["naive_mib"] = 98765.0
    tree.path(RESULT).write_text(json.dumps(result), "utf-8")
    assert tree.build().returncode == 0
    for lang in LANGUAGES:
        assert "98,765" in tree.page(f"{lang}/lesson/index.html"), lang


def test_a_second_card_stands_beside_the_first(tree):
    result = json.loads(tree.path(RESULT).read_text("utf-8"))
    result["machine"]["gpu"] = "Other Card"
    for row in result["rows"]:
        if row.get("part") == "grid" and row["S"] == 4096:
            row["naive_mib"] = 54321.0
    other = tree.path("examples/results/other-card/flash_vs_naive_memory.json")
    other.parent.mkdir()
    other.write_text(json.dumps(result), "utf-8")
    run = tree.build()
    assert run.returncode == 0, run.stdout
    for lang in LANGUAGES:
        page = tree.page(f"{lang}/lesson/index.html")
        assert "54,321" in page and "1,904" in page and re.search(r"<label[^>]*>Other Card</label>", page), lang


def test_a_changed_program_shows_a_visible_mark(tree):
    path = tree.path("examples/flash_vs_naive_memory.py")
    path.write_text(path.read_text("utf-8") + "\n# changed\n", "utf-8")
    assert tree.build().returncode == 0
    assert "measured before the last change" in tree.page("en/lesson/index.html")
    assert "程序在测量之后改动过" in tree.page("zh/lesson/index.html")
    for lang, banner in {"en": "Programs changed after", "zh": "本页有程序在测量之后改动过"}.items():
        assert banner in tree.page(f"{lang}/lesson/index.html"), f"{lang}: the banner above the page"


def test_the_committed_results_are_those_of_the_committed_programs(site):
    assert "measured before the last change" not in (site / "en/lesson/index.html").read_text("utf-8")


@pytest.mark.parametrize("name, old, new, complaint", [
    ("docs/en/lesson.md", "{{ flash_vs_naive_memory.", "{{ flash_vs_naive_memories.", r"docs/en/lesson.md:\d+: no result 'flash_vs_naive_memories'"),
    ("docs/zh/lesson.md", '--8<-- "online_softmax.py:online_steps"', '--8<-- "online_softmax.py:online_step"', "online_step' could not be located"),
    ("docs/en/lesson.md", '--8<-- "online_softmax.py', '--8<-- "online_sofmax.py', "online_sofmax.py"),
    ("examples/online_softmax.py", "def online_steps(", "def online_stepz(", "online_steps' could not be located"),
    ("docs/en/index.md", "](lesson.md", "](lessons.md", "lessons.md"),
    ("docs/zh/index.md", "](lesson.md", "](lesson.md#no-such-place", "no-such-place"),
    ("docs/en/lesson.md", "$$\n", "$$\n\\frac{1 ", r"docs/en/lesson.md:\d+: formula"),
    (RESULT, '"driver"', '"drive"', "machine: 'driver' is a required"),
    (RESULT, '"rows"', '"rowz"', "'rows' is a required"),
    (RESULT, '"status": "ok"', '"status": NaN', "not strict JSON"),
], ids=lambda value: value[:40])
def test_a_build_that_must_fail(tree, name, old, new, complaint):
    tree.edit(name, old, new)
    run = tree.build()
    assert run.returncode != 0, f"green in spite of {new!r} in {name}"
    assert re.search(complaint, run.stdout), run.stdout
