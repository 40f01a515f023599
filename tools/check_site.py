"""What reading its files can tell about a built site: dead links, raw TeX, foreign hosts, missing names, weights.

    python tools/check_site.py FOLDER [--url https://host/path/]

One line a finding, `file: place: what: mend`; exit status 1 if there is one, 2 if there is no site. `--url` is the address that
the site was built for (SITE_URL); without it the checker takes the address from the canonical link of the root page. A site built
without SITE_URL has no canonical links, no entries in its sitemaps, no og:url and no og:image, because all four need an address;
the checker then demands that they are absent. External links that a reader clicks are not followed; what a page would load is.
"""
import argparse
import collections
import functools
import gzip
import html.parser
import json
import pathlib
import re
import struct
import sys
import xml.etree.ElementTree
from urllib.parse import unquote, urljoin, urlsplit

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
from tree import LANGUAGES as FOLDERS, TOP  # noqa: E402
from core.words import load  # noqa: E402

LANGUAGES = {lang: load(TOP / "docs/words")[lang].language.tag.text for lang in FOLDERS}   # folder: what `lang` and `hreflang` say
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
INLINE = {"a", "abbr", "b", "bdi", "cite", "code", "del", "em", "i", "ins", "kbd", "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "u", "var", "wbr"}
PICTURES = ("img", "area", "input", "object", "embed", "video", "audio", "canvas", "iframe", "svg")
CODE = {"code", "pre", "annotation", "textarea", "script", "style"}
LOADED = {"src", "srcset", "imagesrcset", "poster", "data", "background", "action", "formaction", "ping", "manifest", "xlink:href", "href"}
REFERENCES = {"for", "aria-labelledby", "aria-describedby", "aria-controls", "aria-owns", "headers", "list", "form"}   # name ids
UNFETCHED = {"canonical", "alternate", "author", "license", "me", "prev", "next", "help"}   # rel of a <link> that no browser loads
HAN = re.compile(r"[\u4e00-\u9fff]")
TEX = re.compile(r"\$(?!\d)|\$(?=\S)[^$\n]*(?<=\S)\$(?!\d)|\\[\[\]()]|\\[A-Za-z]{2,}|[_^]\{")   # "$2" is a price
LEFT = re.compile(r"\{\{|\}\}|\{%|\{ ?[#:.][a-z][\w-]* ?\}|--8<--|\[TOC\]|^(?:!!!|\?\?\?\+?|===) |\]\([^)\s]*\.md\b|\b(?:TODO|FIXME|TBD)\b|lorem ipsum|data-figure", re.I | re.M)
LEFT_CODE = re.compile(r"\{\{\s*[\w-]+[.@]|--8<--|data-figure")   # braces and TODO may be code
STAND_IN = "ADDRESS-OF-THIS-SITE"
PREFIX = "/any/sub/path/"   # a link that holds here holds under / and /repo/: nothing climbs out, nothing begins at the host's root

# Greatest sizes in bytes, the first pattern that fits; `gz` is the size as a server sends it. What grows past its budget is a decision, not an accident.
BUDGETS = [
    (r"/search/search_index\.json$", "gz", 200_000),
    (r"\.html$", "gz", 130_000),
    (r"\.map$", "raw", 1_200_000),
    (r"^assets/pyodide/", "raw", 10_000_000),
    (r"(?:^|/)assets/javascripts/.*\.js$", "gz", 190_000),
    (r"(?:^|/)assets/stylesheets/.*\.css$", "gz", 24_000),
    (r"^assets/katex/katex\.min\.css$", "raw", 30_000),
    (r"\.woff2$", "raw", 40_000),
    (r"\.css$", "raw", 20_000),
    (r"\.m?js$", "raw", 32_000),
    (r"\.svg$", "raw", 32_000),
    (r"\.png$", "raw", 60_000),
    (r"\.(?:py|wgsl)$", "raw", 68_000),   # a lab carries what proves its instruments
    (r"\.txt$", "raw", 64_000),
    (r"\.ipynb$", "raw", 400_000),
    (r"\.json$", "raw", 400_000),
    (r"\.zip$", "raw", 500_000),
    (r"(?:^|/)sitemap\.xml(?:\.gz)?$", "raw", 60_000),
]
WHOLE = 60_000_000

# Addresses in scripts that others wrote, and what would have to be on the site for a browser to ask for them.
OTHERS = [
    ("https://unpkg.com/resize-observer-polyfill", "a browser from before 2020, without ResizeObserver", None),
    ("https://unpkg.com/mermaid", "a Mermaid diagram", lambda site: [(page, node) for page in site.pages for node in page.classes["mermaid"]]),
    ("https://api.github.com/", "the theme's repository facts", lambda site: [(page, node) for page in site.pages for node in page.having["data-md-component"] if node.attrs["data-md-component"] == "source"]),
    ("https://cdn.jsdelivr.net/pyodide/", "a Python package", lambda site: site.python_packages()),
    ("https://${e}/api/", "the theme's repository facts", lambda site: [(page, node) for page in site.pages for node in page.having["data-md-component"] if node.attrs["data-md-component"] == "source"]),
    ("https://${t}", "a program in the page that opens a socket", None),
    ("https://bit.ly/", "nothing: a message names it", None),
    ("https://github.com/isaacs/node-glob/issues/", "nothing: a message names it", None),
    ("http://www.w3.org/", "nothing: a namespace", None),
]

Finding = collections.namedtuple("Finding", "file place what mend rule")
Finding.__str__ = lambda self: f"{self.file}: {self.place}: {self.what}: {self.mend}"


class Node:
    __slots__ = ("tag", "attrs", "line", "parent", "code", "text", "foreign", "lang", "index")

    def __init__(self, tag, attrs, line, parent):
        self.tag, self.attrs, self.line, self.parent, self.text = tag, attrs, line, parent, []
        self.code = tag in CODE or parent is not None and parent.code
        self.lang = attrs.get("lang", parent.lang if parent is not None else "")
        self.foreign = tag in ("svg", "math") or parent is not None and parent.foreign and parent.tag != "foreignobject"

    @property
    def classes(self):
        return (self.attrs.get("class") or "").split()

    def ancestors(self):
        node = self
        while node is not None:
            yield node
            node = node.parent

    def __str__(self):
        shown = "".join(f' {name}="{value}"' for name, value in self.attrs.items() if name in ("id", "class", "href", "src", "rel", "name", "property", "hreflang"))
        return f"line {self.line} <{self.tag}{shown[:90]}>"


class Page(html.parser.HTMLParser):
    """Nodes in document order; prose and code as (line, text) of each block; words as (line, text, language) of each run of prose."""

    def __init__(self, text):
        super().__init__()
        self.nodes, self.prose, self.code, self.words, self._open, self._block = [], [], [], [], [], {}
        self.feed(text)
        self.close()
        self._flush()
        self.tags, self.classes, self.having = (collections.defaultdict(list) for _ in range(3))
        for node in self.nodes:
            self.tags[node.tag].append(node)
            for name in node.attrs:
                self.having[name].append(node)
            for name in node.classes:
                self.classes[name].append(node)
        self.known = {node.attrs["id"] for node in self.having["id"]} | {node.attrs["name"] for node in self.tags["a"] if "name" in node.attrs}
        self.linking = [(node, *address) for node in self.nodes if node.attrs and not node.attrs.keys().isdisjoint(LOADED | {"style", "content"}) for address in _addresses(node)]
        self.spoken = list(_spoken(self))

    def _flush(self):
        for code, (line, parts) in self._block.items():
            if (text := "".join(parts)).strip():
                (self.code if code else self.prose).append((line, text))
        self._block = {}

    def handle_starttag(self, tag, attrs, closed=False):
        if tag not in INLINE:
            self._flush()
        values = {}
        for name, value in attrs:
            values.setdefault(name, value or "")
        node = Node(tag, values, self.getpos()[0], self._open[-1] if self._open else None)
        node.index = len(self.nodes)
        self.nodes.append(node)
        if tag not in VOID and not (closed and node.foreign):
            self._open.append(node)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs, closed=True)

    def handle_endtag(self, tag):
        if tag not in INLINE:
            self._flush()
        for i in range(len(self._open) - 1, -1, -1):
            if self._open[i].tag == tag:
                del self._open[i:]
                return

    def handle_data(self, data):
        node = self._open[-1] if self._open else None
        if node is None:
            return
        node.text.append(data)
        if node.tag in ("script", "style"):
            return
        self._block.setdefault(node.code, (self.getpos()[0], []))[1].append(data)
        if not node.code and node.tag != "title" and data.strip():
            self.words.append((self.getpos()[0], data, node.lang))

    def text_of(self, node):
        """All text inside a node."""
        parts, inside = list(node.text), {id(node)}
        for other in self.nodes[node.index + 1:]:
            if id(other.parent) not in inside:
                break
            inside.add(id(other))
            parts += other.text
        return "".join(parts)

    def head(self, name):
        """The contents of <meta name=… or property=…>."""
        return [node.attrs.get("content", "") for node in self.tags["meta"] if name in (node.attrs.get("name"), node.attrs.get("property"))]

    def rel(self, kind):
        return [node for node in self.tags["link"] if kind in node.attrs.get("rel", "").split()]


@functools.lru_cache(maxsize=None)
def parsed(name, text):
    page = Page(text)
    page.name = name
    return page


class Site:
    def __init__(self, folder, url=None):
        self.folder = pathlib.Path(folder)
        self.files = {path.relative_to(self.folder).as_posix(): path for path in sorted(self.folder.rglob("*")) if path.is_file()}
        self.names = {name: parsed(name, self.text(name)) for name in self.files if name.endswith(".html")}
        self.pages = list(self.names.values())
        root = self.names.get("index.html")
        own = root.rel("canonical") if root else []
        self.url = url or (own[0].attrs.get("href", "") if own else "")

    def text(self, name):
        return self.files[name].read_text("utf-8")

    def language(self, name):
        folder = name.split("/")[0]
        return folder if folder in LANGUAGES and not name.endswith("404.html") else None

    def address(self, name):
        """Where the page is served, behind the site's root."""
        return name.removesuffix("index.html")

    def content(self):
        """The pages of both languages and the root page: all but 404."""
        return [page for page in self.pages if not page.name.endswith("404.html")]

    def base(self, name):
        if name.endswith("404.html"):   # served at any address, so its links begin at the host's root
            return urljoin("http://any.host/", urlsplit(self.url).path or "/")
        return f"http://any.host{PREFIX}{name}"

    def resolve(self, name, link):
        """(file, anchor) that a link of `name` leads to; (None, reason) if it leaves the site; None for another host."""
        target = urljoin(self.base(name), link)
        if self.url and target.startswith(self.url):
            path = urlsplit(target).path.removeprefix(urlsplit(self.url).path)
        elif not target.startswith("http://any.host/"):
            return None
        else:
            prefix = (urlsplit(self.url).path or "/") if name.endswith("404.html") else PREFIX
            path = urlsplit(target).path
            if not path.startswith(prefix):
                return None, "leaves the site where it is served under another path"
            path = path.removeprefix(prefix)
        path = unquote(path)
        path = path + "index.html" if path == "" or path.endswith("/") else path
        return path, unquote(urlsplit(target).fragment).split(":~:")[0]

    def python_packages(self):
        lock = "assets/pyodide/pyodide-lock.json"
        return [(lock, "packages")] if lock in self.files and json.loads(self.text(lock)).get("packages") else []


RULES = []


def rule(check):
    """A rule yields (file, place, what, mend)."""
    RULES.append(check)
    return check


def check(folder, url=None):
    """All findings in a built site, in the order of the rules."""
    site = Site(folder, url)
    return [Finding(*found, rule.__name__) for rule in RULES for found in rule(site)]


# What a reader sees.

def _spoken(page):
    """(place, text) of what is read besides the blocks: titles, alternatives, labels, descriptions."""
    for node in page.nodes:
        for name in ("alt", "title", "aria-label", "aria-description", "placeholder"):
            if node.attrs.get(name):
                yield f"{node} {name}", node.attrs[name]
        if node.tag == "meta" and re.search("description|title|alt$", node.attrs.get("name", "") + node.attrs.get("property", "")):
            yield str(node), node.attrs.get("content", "")


@rule
def raw_tex(site):
    for page in site.pages:
        for place, text in [*((f"line {line}", text) for line, text in page.prose), *page.spoken]:
            if match := TEX.search(text):
                title = "title" in place or _title_line(page, place)
                mend = "write titles, labels and descriptions without TeX" if title else "close the formula; a dollar sign that is meant is `&#36;` or a price like $2"
                yield page.name, place, f"raw TeX {_around(text, match)!r}", mend


def _title_line(page, place):
    return any(place == f"line {node.line}" for node in page.tags["title"])


@rule
def formulas(site):
    for page in site.pages:
        drawn = page.classes["math"]
        if len(drawn) != len(page.tags["math"]):
            yield page.name, "page", f"{len(drawn)} formulas, {len(page.tags['math'])} of them in MathML", "render each once with KaTeX's htmlAndMathml (docs/hooks/core/tex.py)"
        for node in page.classes["katex-error"] + page.classes["arithmatex"]:
            yield page.name, str(node), "a formula that was not rendered", "mend the formula in the page's Markdown"
        for node in drawn:
            if any(re.fullmatch("h[1-6]", n.tag) for n in node.ancestors()):
                yield page.name, str(node), "a formula in a heading", "say it in words: headings become titles, search results and addresses"
        styled = any("katex" in node.attrs.get("href", "") for node in page.rel("stylesheet"))
        if bool(drawn) != styled:
            yield page.name, "head", "formulas without their style sheet" if drawn else "KaTeX's style sheet on a page without a formula", "see has_math in docs/theme/main.html"


@rule
def leftovers(site):
    for page in site.pages:
        for place, text in [*((f"line {line}", text) for line, text in page.prose), *page.spoken]:
            if match := LEFT.search(text):
                yield page.name, place, f"left over {_around(text, match)!r}", "mend the placeholder, snippet or attribute list in the page's Markdown"
        for line, text in page.code:
            if match := LEFT_CODE.search(text):
                yield page.name, f"line {line}", f"left over {_around(text, match)!r}", "mend the placeholder or the snippet's name in the page's Markdown"
        for line, text in [*page.prose, *page.code] if site.url else []:
            if STAND_IN in text:
                yield page.name, f"line {line}", f"the stand-in {STAND_IN}", "the site has an address: see _site_root in docs/hooks/shim.py"


@rule
def empty_code(site):
    for page in site.pages:
        for node in page.tags["pre"]:
            if not page.text_of(node).strip():
                yield page.name, str(node), "an empty code block", "check the snippet's name and section in the page's Markdown"


@rule
def ids(site):
    for page in site.pages:
        seen = set()
        for node in page.having["id"]:
            own = node.attrs["id"]
            if not own or re.search(r"\s", own):
                yield page.name, str(node), f"an empty id or one with a blank ({own!r})", "give the heading an explicit id, { #name }"
            elif own in seen:
                yield page.name, str(node), f"the id {own!r} stands twice", "give one of the two another id, { #name }"
            seen.add(own)
        for name in REFERENCES:
            for node, reference in [(node, reference) for node in page.having[name] for reference in node.attrs[name].split()]:
                if reference not in page.known:
                    yield page.name, str(node), f"{name} names the id {reference!r}, which is not on the page", "correct the name or give the element its id"


# Addresses.

def _addresses(node):
    """(attribute, address) that an element links to or loads."""
    for name in LOADED & node.attrs.keys():
        value = node.attrs[name].strip()
        if name in ("srcset", "imagesrcset"):
            for part in value.split(","):
                yield name, (part.split() or [""])[0]
        elif name == "data" and node.tag != "object" or name == "background" and node.tag not in ("body", "table", "td"):
            continue
        else:
            yield name, value
    if node.tag == "meta" and node.attrs.get("http-equiv", "").lower() == "refresh" and (match := re.search(r"url\s*=\s*['\"]?([^'\"]+)", node.attrs.get("content", ""), re.I)):
        yield "content", match[1].strip()
    if "url(" in node.attrs.get("style", ""):
        for address in _css_addresses(node.attrs["style"]):
            yield "style", address


def _css_addresses(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return [match[1] or match[2] or match[3] or match[4] for match in re.finditer(r"""url\(\s*(?:"([^"]*)"|'([^']*)'|([^)\s"']+))\s*\)|@import\s+["']([^"']+)""", text) if any(match.groups())]


def _loads(node, attribute):
    """Would a browser ask for this address by itself, or send something to it?"""
    if attribute == "href":
        return node.tag == "link" and not UNFETCHED & set(node.attrs.get("rel", "").split()) or node.tag in ("image", "use", "feimage", "base")
    return True


def _foreign(address):
    return re.match(r"(?:https?:|wss?:|ftp:)?//", address, re.I)


def _ours(name):
    return not re.search(r"(?:^|/)assets/", name)


def _scripts(site):
    """(file, place, text without comments) of every script, in files and in pages."""
    for name in site.files:
        if re.search(r"\.m?js$", name):
            yield name, "script", _no_comments(site.text(name))
    for page in site.pages:
        for node in page.tags["script"]:
            if not re.search("json|importmap", node.attrs.get("type", "")):
                yield page.name, str(node), _no_comments("".join(node.text))


@functools.lru_cache(maxsize=None)
def _no_comments(text):
    return re.sub(r"/\*.*?\*/|(?m:^|(?<=[\s;{}]))//[^\n]*", "", text, flags=re.S)


def _styles(site):
    for name in site.files:
        if name.endswith((".css", ".svg")):
            text = site.text(name)
            yield name, "style", _css_addresses(text) + (re.findall(r"(?:href|src)\s*=\s*[\"']([^\"']+)", text) if name.endswith(".svg") else [])
    for page in site.pages:
        for node in page.tags["style"]:
            yield page.name, str(node), _css_addresses("".join(node.text))


def _dead(site, name, place, address):
    found = site.resolve(name, address)
    if found is None:
        return
    file, anchor = found
    if file is None:
        yield name, place, f"{address} {anchor}", "use a relative address"
    elif file not in site.files and not (place == "script" and any(other.startswith(file.removesuffix("index.html")) for other in site.files)):
        near = next((f" (is it {other}?)" for other in (f"{file}/index.html", f"{file}.html") if other in site.files), "")
        yield name, place, f"dead link {address}: there is no file {file}{near}", "correct the address, or publish the file"
    elif anchor and file in site.names and anchor not in site.names[file].known:
        yield name, place, f"dead anchor {address}: {file} has no id {anchor!r}", "correct the anchor, or give the heading that id"


@rule
def links(site):
    for page in site.pages:
        for node, attribute, address in page.linking:
            if re.match(r"javascript:", address, re.I):
                yield page.name, str(node), "a link that is a script", "make it a button"
            elif not re.match(r"(?:mailto|tel|data|blob):", address):
                yield from _dead(site, page.name, f"{node} {attribute}", address)
        for node in page.having["data-widget"]:
            widget = node.attrs["data-widget"]
            script = f"{page.name.split('/')[0]}/js/{widget}.js"
            if script not in site.files:
                yield page.name, str(node), f"the widget {widget!r} has no script {script}", f"add docs/theme/js/{widget}.js"
        for node in page.tags["script"]:
            for address in _imports("".join(node.text)) if not node.attrs.get("src") and "module" == node.attrs.get("type") else []:
                yield from _dead(site, page.name, str(node), address)


@rule
def links_of_styles_and_scripts(site):
    for name, place, addresses in _styles(site):
        for address in addresses:
            if not re.match(r"data:", address) and not (name.endswith(".svg") and address.startswith("#")):
                yield from _dead(site, name, place, address)
        if name.endswith(".svg"):
            known = set(re.findall(r'\bid\s*=\s*["\']([^"\']+)', site.text(name)))
            for address in addresses:
                if address.startswith("#") and address[1:] not in known:
                    yield name, place, f"dead anchor {address}", "give the part of the drawing that id"
    for name in sorted(_loaded_scripts(site)):
        for address in _imports(_no_comments(site.text(name))):
            yield from _dead(site, name, "script", address)


def _loaded_scripts(site):
    """Our scripts that some page loads, by itself, for a widget, or through another script."""
    waiting = [
        found[0] for page in site.pages for node in page.tags["script"] if node.attrs.get("src") for found in [site.resolve(page.name, node.attrs["src"])] if found
    ] + [f"{page.name.split('/')[0]}/js/{node.attrs['data-widget']}.js" for page in site.pages for node in page.having["data-widget"]]
    loaded = set()
    while waiting:
        name = waiting.pop()
        if name in site.files and name not in loaded and re.search(r"\.m?js$", name) and _ours(name):
            loaded.add(name)
            waiting += [found[0] for address in _imports(_no_comments(site.text(name))) for found in [site.resolve(name, address)] if found]
    return loaded


def _imports(text):
    """Addresses that a module imports or derives from its own, as far as they are written out."""
    found = re.findall(r"""\b(?:from|import)\s*["']([^"']+)["']|\bimport\s*\(\s*["'`]([^"'`$]+)["'`]\s*\)|\bnew (?:URL|Worker|SharedWorker)\(\s*["'`](\.{1,2}/[^"'`$]+)["'`]""", text)
    return [address for groups in found for address in groups if re.match(r"\.{0,2}/", address)]


@rule
def foreign_hosts(site):
    own = re.match(r"\w+://[^/]*/", site.url)[0] if site.url else None
    mend = "serve the file from the site itself (docs/theme or docs/hooks/shim.py, on_files)"
    for page in site.pages:
        for node, attribute, address in page.linking:
            if _loads(node, attribute) and _foreign(address) and not (own and address.startswith(own)):
                yield page.name, f"{node} {attribute}", f"asks another host: {address}", mend
        for node in page.rel("preconnect") + page.rel("dns-prefetch"):
            yield page.name, str(node), "opens a connection ahead", "remove it: everything comes from the site itself"
    for name, place, addresses in _styles(site):
        for address in filter(_foreign, addresses):
            yield name, place, f"asks another host: {address}", mend
    for name, place, text in _scripts(site):
        for address in re.findall(r"""(?:https?|wss?)://[^\s"'`)\\]+|(?<=["'`])//[\w-]+\.[\w.-]+[^\s"'`)\\]*""", text):
            listed = next((entry for entry in OTHERS if address.startswith(entry[0]) and (not _ours(name) or "w3.org" in entry[0])), None)
            if listed is None:
                yield name, place, f"a script holds the address of another host: {address[:80]}", mend + ", or list it in OTHERS of tools/check_site.py with what would make it ask"
            else:
                for where, what in listed[2](site) if listed[2] else []:
                    yield getattr(where, "name", where), str(what), f"makes {name} ask {listed[0]} ({listed[1]})", "remove what makes it ask"


# Languages, names.

@rule
def language(site):
    for page in site.pages:
        lang = site.language(page.name)
        said = next((node.attrs.get("lang") for node in page.tags["html"]), None)
        if not said:
            yield page.name, "html", "no lang", 'write <html lang="…">'
        elif not said.startswith(own := lang or next((folder for folder in LANGUAGES if page.name.startswith(f"{folder}/")), "en")):
            yield page.name, "html", f"lang is {said!r} on a page in {own}", "correct `theme.language` or the template"
        for node in page.having["lang"]:
            if not node.attrs["lang"]:
                yield page.name, str(node), "an empty lang", "name the language or remove the attribute"
            elif node.foreign and lang and not node.attrs["lang"].startswith(lang):
                yield page.name, str(node), f"a drawing's text in {node.attrs['lang']}", "keep the page's language alone (docs/hooks/core/drawings.py)"
        for line, text, said in page.words:
            if HAN.search(text) and not said.startswith("zh"):
                yield page.name, f"line {line}", f"Chinese text outside lang=zh-CN: {text.strip()[:40]!r}", "mark it with lang, or write it in the page's language"
                break
        if lang == "zh" and not any(HAN.search(text) for _, text, _ in page.words):
            yield page.name, "page", "no Chinese text on a Chinese page", "write the page"


@rule
def head(site):
    seen = {}
    for page in site.pages:
        titles = [title for node in page.tags["title"] if not node.foreign for title in ["".join(node.text).strip()]]
        if len(titles) != 1 or not titles[0]:
            yield page.name, "head", f"{len(titles)} titles {titles}", "a page has one title with text in it"
        elif not page.name.endswith("404.html") and seen.setdefault((site.language(page.name), titles[0]), page.name) != page.name:
            yield page.name, "title", f"the same title as {seen[site.language(page.name), titles[0]]}: {titles[0]!r}", "give the page its own"
        if not page.head("viewport"):
            yield page.name, "head", "no viewport", 'add <meta name="viewport" content="width=device-width,initial-scale=1">'
        if not any("charset" in node.attrs for node in page.tags["meta"]):
            yield page.name, "head", "no charset", 'add <meta charset="utf-8">'
        if len(page.tags["h1"]) != 1:
            yield page.name, "page", f"{len(page.tags['h1'])} first-level headings", "a page has one"


@rule
def pictures(site):
    mend = "say in words what it shows (alt, or <title> in a drawing); empty alt with role=presentation if it shows nothing"
    for page in site.pages:
        for node in [node for tag in PICTURES for node in page.tags[tag]]:
            silent = lambda: any(n.attrs.get("aria-hidden") == "true" or n.attrs.get("role") in ("presentation", "none") for n in node.ancestors())  # noqa: E731
            if (node.tag in ("img", "area") or node.tag == "input" and node.attrs.get("type") == "image") and not node.attrs.get("alt", "").strip() and not ("alt" in node.attrs and silent()):
                yield page.name, str(node), "a picture without alternative text", mend
            if node.tag in ("object", "embed", "video", "audio", "canvas", "iframe") and not (node.attrs.get("title") or node.attrs.get("aria-label") or node.attrs.get("aria-labelledby")) and not silent():
                yield page.name, str(node), "embedded content without a name", mend
            if node.tag == "svg" and not silent():
                icon = any(n.tag in ("a", "button", "label", "noscript") or "md-icon" in n.classes or "twemoji" in n.classes for n in node.ancestors()) and "figure" not in {n.tag for n in node.ancestors()}
                if icon and node.attrs.get("role") != "img":
                    continue   # the control around it has a name of its own
                named = node.attrs.get("aria-label", "").strip() or any(
                    page.text_of(other).strip() for reference in node.attrs.get("aria-labelledby", "").split() for other in page.having["id"] if other.attrs["id"] == reference
                ) or any(other.parent is node and other.tag == "title" and "".join(other.text).strip() for other in page.tags["title"])
                if node.attrs.get("role") not in ("img", "group") or not named:            # a group: a chart whose points can be reached
                    yield page.name, str(node), "a drawing without role=img or without a name", mend


@rule
def pairs(site):
    """Every page is there in both languages and says so."""
    sets = {lang: {name.split("/", 1)[1] for name in site.files if name.split("/")[0] == lang and name.endswith((".html", ".ipynb"))} for lang in LANGUAGES}
    for lang, pages in sets.items():
        for other in LANGUAGES:
            for name in sorted(pages - sets[other]):
                yield f"{lang}/{name}", "page", f"in {lang} only", f"write docs/{other} for it, or remove it"
    for page in site.content():
        lang = site.language(page.name)
        here = [(node, node.attrs["hreflang"]) for node in page.having["hreflang"]]
        wanted = set(LANGUAGES.values()) - ({LANGUAGES[lang]} if lang else set())
        if not wanted <= {code for _, code in here}:
            yield page.name, "page", f"no link with hreflang={'/'.join(sorted(wanted - {code for _, code in here}))}", "see docs/theme/partials/alternate.html"
        for node, code in here:
            folder = next((folder for folder, said in LANGUAGES.items() if said == code), None)
            tail = page.name.split("/", 1)[1] if lang else "index.html"
            target = site.resolve(page.name, node.attrs.get("href", ""))
            if folder is None and not (code == "x-default" and node.tag == "link"):
                yield page.name, str(node), f"hreflang={code} is no language of the site", f"one of {', '.join(LANGUAGES.values())}"
            elif folder and target and target[0] != f"{folder}/{tail}":
                yield page.name, str(node), f"hreflang={code} leads to {target[0]}, not to {folder}/{tail}", "link the same page in the other language"


@rule
def canonical(site):
    for page in site.pages:
        said = [node.attrs.get("href") for node in page.rel("canonical")]
        wanted = [site.url + site.address(page.name)] if site.url and not page.name.endswith("404.html") else []
        if said != wanted:
            why = "the site has no address" if not site.url else "a page that is not there has no address" if not wanted else "one, and the page's own"
            yield page.name, "head", f"canonical {said or 'missing'}, not {wanted or 'absent'}", f"{why}: see site_url"


@rule
def page_404(site):
    if "404.html" not in site.names:
        yield "404.html", "file", "there is no 404 page", "docs/theme/404.html makes it"
        return
    page = site.names["404.html"]
    texts = [(text, lang) for _, text, lang in page.words]
    if not any(re.search(r"[a-z]{3} [a-z]", text) and lang.startswith("en") for text, lang in texts):
        yield "404.html", "page", "it says nothing in English", "static hosts serve this one page to both languages"
    if not any(len(HAN.findall(text)) > 5 and lang.startswith("zh") for text, lang in texts):
        yield "404.html", "page", "it says nothing in Chinese marked lang=zh-CN", "static hosts serve this one page to both languages"
    for lang in LANGUAGES:
        own = site.names.get(f"{lang}/404.html")
        if own and not next((said for _, text, said in own.words if not text.strip().isdigit()), "").startswith(lang):
            yield own.name, "page", f"it does not begin in its language, {lang}", "docs/theme/404.html puts a language's own line first"
    reached = {site.resolve("404.html", node.attrs.get("href", "")) for node in page.tags["a"]}
    for lang in LANGUAGES:
        if (f"{lang}/index.html", "") not in reached:
            yield "404.html", "page", f"no link to {lang}/", "lead the reader back in both languages"
    for node, attribute, address in page.linking:
        if not address.startswith(("/", "#", "data:")) and not _foreign(address):
            yield "404.html", f"{node} {attribute}", f"the relative address {address}", "the page is served at every depth: begin at the root of SITE_URL"


@rule
def sitemap(site):
    maps = {"": "sitemap.xml", **{lang: f"{lang}/sitemap.xml" for lang in LANGUAGES}}
    space = {"s": "http://www.sitemaps.org/schemas/sitemap/0.9", "x": "http://www.w3.org/1999/xhtml"}
    trees = {}
    for lang, name in maps.items():
        if name not in site.files:
            yield name, "file", "there is no sitemap", "docs/theme/sitemap.xml makes it"
            continue
        try:
            trees[lang] = xml.etree.ElementTree.fromstring(site.text(name))
        except xml.etree.ElementTree.ParseError as error:
            yield name, f"line {error.position[0]}", f"not XML: {error}", "mend docs/theme/sitemap.xml"
        if f"{name}.gz" in site.files and gzip.decompress(site.files[f"{name}.gz"].read_bytes()) != site.files[name].read_bytes():
            yield f"{name}.gz", "file", "differs from the sitemap beside it", "build again into an empty folder"
    for lang, tree in trees.items():
        entries = {entry.findtext("s:loc", "", space).strip(): entry for entry in tree}
        if not site.url:
            wanted = set()
        elif lang:
            wanted = {site.url + site.address(page.name) for page in site.content() if site.language(page.name) == lang}
        else:
            wanted = {f"{site.url}{code}/sitemap.xml" for code in LANGUAGES}
        for address in sorted(wanted - entries.keys()):
            yield maps[lang], "entries", f"{address} is missing", "see docs/theme/sitemap.xml"
        for address in sorted(entries.keys() - wanted):
            yield maps[lang], "entries", f"{address} is no page of the site" if site.url else f"{address} in a site without an address", "see docs/theme/sitemap.xml"
        if len(tree) != len(entries):
            yield maps[lang], "entries", "an address stands twice", "see docs/theme/sitemap.xml"
        for address, entry in entries.items() if lang and site.url else []:
            pairs = {link.get("hreflang"): link.get("href") for link in entry.findall("x:link", space)}
            tail = address.removeprefix(f"{site.url}{lang}/")
            if pairs != {code: f"{site.url}{folder}/{tail}" for folder, code in LANGUAGES.items()}:
                yield maps[lang], address, f"hreflang pairs are {pairs}", "each entry names the page in every language"


@rule
def preview(site):
    """What a messenger or a search engine shows of a page."""
    seen = {}
    fixed = {"og:type": None, "og:title": None, "og:site_name": None, "og:locale": None, "twitter:card": "summary_large_image"}
    addressed = ("og:url", "og:image", "og:image:alt", "og:image:width", "og:image:height")
    mend = "see docs/theme/partials/preview.html"
    for page in site.content():
        lang = site.language(page.name)
        for name, value in fixed.items():
            said = page.head(name)
            if len(said) != 1 or not said[0].strip() or value and said != [value]:
                yield page.name, "head", f"{name} is {said or 'missing'}", mend
        locale = LANGUAGES.get(lang, "en").replace("-", "_")
        if page.head("og:locale") and not page.head("og:locale")[0].startswith(locale):
            yield page.name, "head", f"og:locale is {page.head('og:locale')[0]} on a page in {lang}", mend
        for name in addressed:
            if len(page.head(name)) != (1 if site.url else 0):
                yield page.name, "head", f"{name} is {page.head(name) or 'missing'}" + ("" if site.url else " in a site without an address"), mend
        if site.url and page.head("og:url") not in ([], [site.url + site.address(page.name)]):
            yield page.name, "head", f"og:url is {page.head('og:url')}, not the page's address", mend
        for address in page.head("og:image"):
            file = site.resolve(page.name, address)
            size = _png_size(site.files[file[0]]) if file and file[0] in site.files else None
            said = tuple(page.head(f"og:image:{side}")[:1] for side in ("width", "height"))
            if not address.startswith(site.url) or size is None:
                yield page.name, "head", f"og:image {address} is no PNG of this site", mend
            elif size[0] < 600 or said != ([str(size[0])], [str(size[1])]):
                yield page.name, "head", f"og:image is {size[0]} × {size[1]}, the page says {said}", "at least 600 wide, and the size that it has"
        description = page.head("description")
        if len(description) != 1 or page.head("og:description") != description:
            yield page.name, "head", f"description {description}, og:description {page.head('og:description')}", "one, and the same in both"
            continue
        text, mine = description[0].strip(), "write `description:` in the page's front matter"
        if seen.setdefault(text, page.name) != page.name:
            yield page.name, "description", f"the same as {seen[text]}: {text!r}", mine
        han = len(HAN.findall(text))
        if not text or lang == "zh" and han < 8 or lang == "en" and han:
            yield page.name, "description", f"not in the page's language: {text!r}", mine
        least, most = (20, 100) if lang == "zh" else (50, 200)
        if text and not least <= len(text) <= most:
            yield page.name, "description", f"{len(text)} characters, not {least} to {most}: {text!r}", mine


def _png_size(path):
    start = path.read_bytes()[:24]
    return struct.unpack(">II", start[16:24]) if start[:8] == b"\x89PNG\r\n\x1a\n" else None


@rule
def budgets(site):
    whole = 0
    for name, path in site.files.items():
        size = path.stat().st_size
        whole += size
        kind = next((entry for entry in BUDGETS if re.search(entry[0], name)), None)
        if kind is None:
            yield name, "file", f"no budget for this kind of file ({size:,} bytes)", "should it be published? Then add its kind to BUDGETS in tools/check_site.py"
        elif size > kind[2] and (weight := _zipped(path.read_bytes()) if kind[1] == "gz" else size) > kind[2]:
            yield name, "file", f"{weight:,} bytes{' compressed' if kind[1] == 'gz' else ''}, over its budget of {kind[2]:,}", "make it smaller or split it; raise BUDGETS only with a reason"
    if whole > WHOLE:
        yield ".", "folder", f"{whole:,} bytes, over the budget of {WHOLE:,}", "find what grew: du -a | sort -n"


@functools.lru_cache(maxsize=None)
def _zipped(data):
    return len(gzip.compress(data, 6))


def _around(text, match):
    return " ".join(text[max(match.start() - 25, 0):match.end() + 25].split())


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="a built site")
    parser.add_argument("--url", help="the address that it was built for (SITE_URL)")
    options = parser.parse_args(arguments)
    if not (options.folder / "index.html").is_file():
        print(f"{options.folder} is no built site (no index.html in it). Run `make site`, or name the folder: make check-site DIR=folder", file=sys.stderr)
        return 2
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    findings = check(options.folder, options.url)
    for finding in findings:
        print(finding)
    if findings:
        print(f"{len(findings)} findings", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
