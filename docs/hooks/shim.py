"""The only code that knows MkDocs: hands pages to the small pure modules in core/, and builds both languages into one site.

MkDocs loads a hook once per process, so an edited core is imported afresh at each build (on_config), and then reads the Book that all
pages of that build are made from. What must outlive a build is kept here: Node's process and its answers, and what slow steps have made
of the same inputs (kept.py). An edit of this file is seen by the next process.
"""
import functools
import importlib
import json
import logging
import os
import pathlib
import pkgutil
import re
import shutil
import subprocess
import sys
from urllib.parse import urlsplit

import jinja2
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority, get_plugin_logger
from mkdocs.structure.files import File
from mkdocs.structure.toc import get_toc
from mkdocs.utils import CountHandler, get_relative_url

log = get_plugin_logger("lesson")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import kept  # noqa: E402

TOP = HERE.parents[1]
EXAMPLES = TOP / "examples"
EVIDENCE = TOP / "docs" / "evidence"
KATEX = TOP / "node_modules" / "katex"
PYODIDE = TOP / "node_modules" / "pyodide"
CACHE = TOP / ".cache" / "snippets"
NOTEBOOKS = TOP / ".cache" / "ipynb"
BYTECODE = TOP / ".cache" / "templates"

_formulas = {}
_node = None
command = "build"
core = book = version = None   # of the build that runs; `version` names all code that makes pages,
snippets, facts = {}, ""       # `facts` what pages are made from beside their own texts
_kept = kept.Kept(TOP / ".cache" / "pages")
_here = kept.code(HERE / "shim.py", HERE / "kept.py")   # as it was loaded


def on_startup(command, dirty):
    globals()["command"] = command
    os.environ.setdefault("SOURCE_DATE_EPOCH", _commit_date())


def on_config(config):
    global core, book, version, snippets, facts
    if config.extra["lang"] == "root" or core is None:   # once in a build: the languages follow the root
        version = kept.digest(_here, kept.code(HERE / "core", TOP / "tools" / "bundle.py", HERE / "katex.mjs", KATEX / "package.json", EXAMPLES / "kit" / "identity.py"), kept.installed())
        core = _fresh_core(version)
        try:
            book = core.book.read(TOP, _kept(lambda: core.book.facts(TOP), "facts", version, config.extra["languages"], kept.folders(*(TOP / name for name in core.book.FACTS))))
        except core.errors.PageError as error:
            raise PluginError(str(error)) from None
        facts = kept.digest(*((name, value) for name, value in vars(book).items() if name not in ("pages", "glossary")))
        snippets = _kept(lambda: core.book.snippets(book), "snippets", version, dict(book.examples), dict(book.outputs))
        _write_snippets()
    config.mdx_configs.setdefault("pymdownx.snippets", {})["base_path"] = [str(CACHE)]
    for index in _search_index(config):
        index.add_entry_from_context = functools.partial(_index, index, index.add_entry_from_context, _settings(config))
    config.extra["issues"] = config.extra.get("issues") or (config.extra.get("repo", "") and config.extra["repo"].rstrip("/") + "/issues/new")
    return config


@event_priority(50)   # before mkdocs-jupyter, which makes pages of the notebooks that it finds
def on_files(files, config):
    for file in files:
        if core.search.WORKER.fullmatch(file.src_uri):
            file.content_string = core.search.mend(file.content_string)
    if config.extra["lang"] != "root":
        for name, words in book.scripts[config.extra["lang"]].items():
            if name in core.widgets.RENDERERS:
                files.append(File.generated(config, f"js/words-{name}.js", content=f"export default {json.dumps(words, ensure_ascii=False)};\n"))
        for lab in _write_notebooks(config.extra["lang"], config.extra["gpu"]):
            files.append(File(f"notebooks/{lab}.ipynb", str(NOTEBOOKS / config.extra["lang"]), config.site_dir, config.use_directory_urls))
        return files
    generated = {f"examples/{name}": text for name, text in book.examples.items()}
    generated["downloads/flash-attention-examples.zip"] = core.archive.pack(core.archive.examples(EXAMPLES, book.examples, TOP / "LICENSE"), "flash-attention-examples")
    generated["img/preview.png"] = _kept(lambda: core.theatre.picture(book.theatre, book.words["en"]), "preview", version, facts)
    generated["assets/katex/katex.min.css"] = _woff2_only((KATEX / "dist" / "katex.min.css").read_text("utf-8"))
    generated["assets/pyodide/pyodide-lock.json"] = _no_packages((PYODIDE / "pyodide-lock.json").read_text("utf-8"))
    shared = {path.relative_to(TOP).as_posix(): path for path in [*sorted(EXAMPLES.glob("outputs/*.txt")), *core.results.files(EXAMPLES / "results")]}
    shared |= {f"evidence/{path.name}": path for path in EVIDENCE.glob("*.json")}
    if config.extra["offline"]:
        shared["downloads/flash-attention-offline.zip"] = _offline(config)
    shared |= {f"assets/katex/fonts/{path.name}": path for path in sorted((KATEX / "dist" / "fonts").glob("*.woff2"))}
    shared["assets/py/online_trace.py"] = HERE / "core" / "online_trace.py"   # the page runs it on a reader's scores
    shared |= {f"assets/pyodide/{name}": PYODIDE / name for name in ["pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip"]}
    for uri, content in generated.items():
        files.append(File.generated(config, uri, content=content))
    for uri, path in shared.items():
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    lang = config.extra["lang"]
    if lang == "root":
        return markdown
    if page.file.src_uri.endswith(".ipynb"):
        return _read_notebook(markdown, page, lang)
    place, page.first_line = _place(page, config), _first_line(page.file.abs_src_path, markdown)
    heads = _heads(lang) if "widget.quiz" in markdown else None   # a quiz names the headings that it leads to
    try:
        page.draft = _kept(lambda: core.placeholders.Page(book, place).draft(markdown, page.first_line), "draft", version, facts, heads, place, markdown)
    except core.errors.PageError as error:
        raise _located(error, page) from None
    page.source = page.draft.markdown
    page.render = functools.partial(_render_page, page)
    return page.source


def _render_page(page, config, files):
    """MkDocs' own rendering, made once for the same Markdown, settings, snippets and files; not kept where it warns, so that a build warns again."""
    markdown, warned = page.markdown, CountHandler()
    warned.setLevel(logging.WARNING)
    included = [(name, text) for name, text in snippets.items() if name in markdown] if "-8<-" in markdown else []
    names = sorted((file.src_uri, file.dest_uri, str(file.inclusion)) for file in files)

    def made():
        type(page).render(page, config, files)
        anchors = {file.src_uri: links for file, links in (page.links_to_anchors or {}).items()}
        return page.content, page.toc, page._title_from_render, page.present_anchor_ids, anchors

    logging.getLogger("mkdocs").addHandler(warned)
    try:
        found = _kept(made, "markdown", version, _settings(config), page.file.src_uri, included, names, markdown, unless=warned.get_counts)
    finally:
        logging.getLogger("mkdocs").removeHandler(warned)
    page.content, page.toc, page._title_from_render, page.present_anchor_ids, anchors = found
    page.links_to_anchors = {files.get_file_from_path(uri): links for uri, links in anchors.items()}


def on_page_content(content, page, config, files):
    if config.extra["lang"] == "root":
        return content
    notebook, draft, place = getattr(page, "notebook", None), getattr(page, "draft", None), _place(page, config)
    glossary = files.get_file_from_path("glossary.md")
    address = get_relative_url(glossary.url, page.url) if glossary and page.file is not glossary else None
    links = core.notebooks.links(page.file.name, place.lang, book.words[place.lang], place.root, place.gpu, config.extra["repo"]) if notebook else None

    def made():
        text, blocks, headings = core.notebooks.shape(content, notebook, book.words[place.lang], links) if notebook else (content, None, None)
        text = core.page.body(text, draft, book, place, address)
        formulas = core.tex.find(text)
        text = core.tex.place(text, formulas, _render(formulas), page.source)
        return core.page.finish(text, draft, book, place), blocks, headings

    try:
        known = sorted(book.examples), book.words[place.lang], book.glossary.get(place.lang)
        content, page.blocks, headings = _kept(made, "content", version, content, draft, place, address, links, known, page.source)
    except core.errors.PageError as error:
        if error.line:
            error.line += page.first_line - 1
        raise _located(error, page) from None
    if notebook:
        page.toc = get_toc(core.notebooks.toc(headings))
    return content


def on_page_context(context, page, config, nav):
    lang = config.extra["lang"]
    _add_synonyms(page, config)
    context["root"] = _root(page, lang)
    context["languages"] = [
        {"lang": code, "tag": book.words[code].language.tag, "name": name, "link": f"{_root(page, lang)}{code}/{'' if lang == 'root' else page.url.removeprefix('./')}"}
        for code, name in config.extra["languages"].items()
    ]
    if page.is_homepage and lang != "root" and config.extra["offline"]:
        context["offline_mib"] = round(_offline(config).stat().st_size / 2**20)
    context["words"] = book.words["en" if lang == "root" else lang]
    if lang != "root":
        widgets = re.findall(r'data-widget="(\w+)"(?![^>]*data-ask=)', page.content or "")   # one that waits for its button brings its words with it
        context["said"] = json.dumps({name: book.scripts[lang][name] for name in sorted({"site", *widgets}) if name in book.scripts[lang]}, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    context["has_math"] = 'class="math"' in (page.content or "")
    notebook = getattr(page, "notebook", None)
    context["stale"] = [{"lab": page.file.name}] if notebook and book.cells.get((config.extra["gpu"], page.file.name), {}).get("stale") else [book.results[key] for key in page.draft.used if book.results[key]["stale"]] if hasattr(page, "draft") else []
    return context


def on_post_page(output, page, config):
    lang, content, source = config.extra["lang"], page.content or "", pathlib.Path(page.file.abs_src_path).read_text("utf-8-sig")

    def made():
        core.policy.refuse(content, source)
        text = core.notebooks.place(output, page.blocks) if getattr(page, "notebook", None) else output
        return _with_policy(text if lang == "root" else core.page.dress(text, book.words[lang]))

    try:
        return _kept(made, "page", version, command, lang, output, content, source, getattr(page, "blocks", None), lang != "root" and book.words[lang])
    except core.errors.PageError as error:
        raise _located(error, page) from None


def on_post_template(output_content, template_name, config):
    return _with_policy(output_content) if template_name.endswith(".html") else output_content


def on_env(env, config, files):
    for path in sorted((TOP / "docs/theme").rglob("*.html")):
        text = path.read_text("utf-8")
        try:
            core.policy.refuse(text, text)
        except core.errors.PageError as error:
            raise PluginError(f"{path.relative_to(TOP).as_posix()}{f':{error.line}' if error.line else ''}: {error}") from None
    BYTECODE.mkdir(parents=True, exist_ok=True)
    env.bytecode_cache = jinja2.FileSystemBytecodeCache(str(BYTECODE))   # by the hash of each template
    env.globals["every_word"] = book.words
    env.globals["site_root"] = _site_root(config)
    env.filters["path_of"] = lambda url: urlsplit(url).path or "/"
    return env


def on_post_build(config):
    if config.extra["lang"] != "root":
        index = pathlib.Path(config.site_dir) / "search" / "search_index.json"   # as it is read: escaped, Chinese weighs a tenth more on its way
        index.write_text(json.dumps(json.loads(index.read_text("utf-8")), ensure_ascii=False, separators=(",", ":")), "utf-8", newline="\n")
        return
    for lang in config.extra["languages"]:
        log.info(f"Building {lang}")
        child = load_config(
            str(TOP / f"mkdocs.{lang}.yml"), strict=config.strict, site_dir=str(pathlib.Path(config.site_dir) / lang),
            site_url=f"{config.site_url.rstrip('/')}/{lang}/" if config.site_url else "",
        )
        child.plugins.run_event("startup", command=command, dirty=False)
        build(child)
    log.info(f"Steps made anew: {_kept.made} of {len(_kept.used)}")
    _kept.end()


def _read_notebook(text, page, lang):
    """A notebook's JSON, which takes the place of Markdown; its errors are the page's."""
    try:
        page.notebook = core.notebooks.read(text)
    except core.errors.PageError as error:
        raise _located(error, page) from None
    page.source, page.first_line = text, 1
    page.meta["description"] = core.notebooks.description(page.notebook, lang)
    return text


def _write_notebooks(lang, gpu):
    """The labs whose notebooks are below NOTEBOOKS now: mkdocs-jupyter reads a file, and publishes it beside the page."""
    try:
        made = _kept(lambda: core.book.notebooks(book, lang, gpu), "notebooks", version, facts, core.cells.taken(book.pages[lang]), lang, gpu)
    except core.errors.PageError as error:
        raise PluginError(str(error)) from None
    for lab, text in made.items():
        _write(NOTEBOOKS / lang / "notebooks" / f"{lab}.ipynb", text)
    return list(made)


def _commit_date():
    """Seconds of the commit that is built, so that a commit gives the same bytes whenever it is built; outside of git the first day of zip archives."""
    if (TOP / ".git").exists() and shutil.which("git"):
        done = subprocess.run(["git", "-C", str(TOP), "log", "-1", "--no-show-signature", "--format=%ct"], capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.strip().isdigit():
            return done.stdout.strip()
    log.info("No commit to date this build by: its date is 1980-01-01.")
    return "315532800"


def _with_policy(page):
    """Not while serving: MkDocs then adds an inline script of its own that reloads the page."""
    return page if command == "serve" else core.policy.put(page)


def _fresh_core(version, seen=[None]):
    """Import core/ again after an edit, so that it shows in the next build; no .pyc, whose time stamp could hide an edit."""
    if seen == [version]:
        return core
    sys.dont_write_bytecode = True
    for folder in (str(TOP / "tools"), str(HERE)):   # core/book.py bundles with tools/bundle.py, which reads examples/kit
        if folder not in sys.path:
            sys.path.insert(0, folder)
    for name in [name for name in sys.modules if seen[0] and name.split(".")[0] in ("core", "bundle", "kit")]:   # the first time it is fresh, and others may hold it
        del sys.modules[name]
    seen[0], package = version, importlib.import_module("core")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"core.{module.name}")
    return package


def _write_snippets():
    """Copies of the examples with section markers, and of the captured outputs, where pymdownx.snippets finds them."""
    for path in [p for p in CACHE.rglob("*") if p.is_file()] if CACHE.is_dir() else []:
        if path.relative_to(CACHE).as_posix() not in snippets:
            path.unlink()
    for name, text in snippets.items():
        _write(CACHE / name, text)


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8", newline="\n")


def _heads(lang):
    """What decides the headings of each page: their lines, and those of fences."""
    return {name: [line for line in text.split("\n") if line.lstrip().startswith(("#", "```"))] for name, text in book.pages[lang].items()}


def _settings(config):
    """What configures the Markdown and the search of a language."""
    return config.extra["lang"], [(path.name, path.read_text("utf-8")) for path in sorted(TOP.glob("mkdocs*.yml"))]


def _search_index(config):
    return [plugin.search_index for plugin in config.plugins.values() if hasattr(plugin, "search_index")]


def _index(index, add, settings, page):
    """The entries of a page in the search index, segmented once."""
    def made():
        index.entries, before = [], index.entries
        add(page)
        index.entries, entries = before, index.entries
        return entries

    def ids(items):
        return [(item.id, item.url, ids(item.children)) for item in items]

    index.entries += _kept(made, "search", version, settings, page.content, page.url, page.title, page.meta, ids(page.toc))


def _add_synonyms(page, config):
    """Behind the search plugin, which has just put the page into its index."""
    for index in _search_index(config) if "synonyms" in page.meta else []:
        try:
            core.search.add_synonyms(index.entries, page.meta["synonyms"], page.url, page.toc.items[0].id)
        except core.errors.PageError as error:
            raise _located(error, page) from None


def _offline(config):
    """The archive of the whole site that this build publishes."""
    path = TOP / config.extra["offline"]
    if not path.is_file():
        raise PluginError(f"OFFLINE names {config.extra['offline']}, and there is no such file. Make it first: `make offline`.")
    return path


def _woff2_only(css):
    return re.sub(r',url\(fonts/[^)]*\.(?:woff|ttf)\) format\("(?:woff|truetype)"\)', "", css)


def _no_packages(lock):
    """Pyodide's list without packages: the page has the standard library, and Python then says so in its own words."""
    lock = json.loads(lock)
    return json.dumps({**lock, "packages": {}})


def _place(page, config):
    return core.book.Place(config.extra["lang"], page.file.src_uri, _root(page), _site_root(config) or "ADDRESS-OF-THIS-SITE/", config.extra["gpu"])


def _root(page, lang=None):
    """Relative address of the site's root from a page of a language, or from a root page."""
    depth = page.url.removeprefix("./").count("/") + (lang != "root")
    return "../" * depth or "./"


def _site_root(config):
    url = config.site_url or ""
    lang = config.extra["lang"]
    return url if lang == "root" else url.removesuffix(f"{lang}/")


def _first_line(path, markdown):
    """The file's line on which the Markdown behind the front matter begins."""
    text = pathlib.Path(path).read_text("utf-8-sig")
    return text[: max(text.find(markdown[:200]), 0)].count("\n") + 1


def _located(error, page):
    where = f"{pathlib.Path(page.file.abs_src_path).relative_to(TOP).as_posix()}" + (f":{error.line}" if error.line else "")
    return PluginError(f"{where}: {error}")


def _render(formulas):
    """KaTeX's HTML for each (tex, display), by one Node process for the whole life of the build or server."""
    global _node
    missing = [formula for formula in dict.fromkeys(formulas) if formula not in _formulas]
    if missing:
        if _node is None or _node.poll() is not None:
            node = shutil.which("node")
            if node is None:
                raise PluginError("Node 20 or newer is needed to render formulas, and no `node` is on the PATH. Install it, then `make site`.")
            if not KATEX.is_dir():
                raise PluginError("KaTeX is not installed. Run `npm ci` (or `make site`, which does).")
            _node = subprocess.Popen([node, str(HERE / "katex.mjs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", cwd=TOP)
        _node.stdin.write(json.dumps({"formulas": missing}) + "\n")
        _node.stdin.flush()
        answer = _node.stdout.readline()
        if not answer:
            raise PluginError(f"the formula renderer ended (node {HERE / 'katex.mjs'}). Node 20 or newer is needed: `node --version`.")
        _formulas.update(zip(missing, json.loads(answer)))
    return [_formulas[formula] for formula in formulas]
