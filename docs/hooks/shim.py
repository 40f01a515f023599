"""The only code that knows MkDocs: hands pages to the small pure modules in core/, and builds both languages into one site.

MkDocs loads a hook once per process, so an edited core is imported afresh at each build (on_config), and then reads the Book that all
pages of that build are made from. What must outlive a build, Node's process and its answers, is kept here.
"""
import importlib
import json
import os
import pathlib
import pkgutil
import re
import shutil
import subprocess
import sys
from urllib.parse import urlsplit

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import PluginError
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File
from mkdocs.structure.toc import get_toc
from mkdocs.utils import get_relative_url

log = get_plugin_logger("lesson")
HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
EXAMPLES = TOP / "examples"
EVIDENCE = TOP / "docs" / "evidence"
KATEX = TOP / "node_modules" / "katex"
PYODIDE = TOP / "node_modules" / "pyodide"
CACHE = TOP / ".cache" / "snippets"

_formulas = {}
_node = None
command = "build"
core = book = None   # of the build that runs


def on_startup(command, dirty):
    globals()["command"] = command
    os.environ.setdefault("SOURCE_DATE_EPOCH", _commit_date())


def on_config(config):
    global core, book
    if config.extra["lang"] == "root" or core is None:   # once in a build: the languages follow the root
        core = _fresh_core()
        try:
            book = core.book.read(TOP)
        except core.errors.PageError as error:
            raise PluginError(str(error)) from None
        _write_snippets()
    config.mdx_configs.setdefault("pymdownx.snippets", {})["base_path"] = [str(CACHE)]
    config.extra["issues"] = config.extra.get("issues") or (config.extra.get("repo", "") and config.extra["repo"].rstrip("/") + "/issues/new")
    return config


def on_files(files, config):
    if config.extra["lang"] != "root":
        return files
    generated = {f"examples/{name}": text for name, text in book.examples.items()}
    generated["downloads/flash-attention-examples.zip"] = core.archive.pack(core.archive.examples(EXAMPLES, book.examples, TOP / "LICENSE"), "flash-attention-examples")
    generated["assets/katex/katex.min.css"] = _woff2_only((KATEX / "dist" / "katex.min.css").read_text("utf-8"))
    generated["assets/pyodide/pyodide-lock.json"] = _no_packages((PYODIDE / "pyodide-lock.json").read_text("utf-8"))
    shared = {path.relative_to(TOP).as_posix(): path for path in [*sorted(EXAMPLES.glob("outputs/*.txt")), *sorted(EXAMPLES.glob("results/*/*.json"))]}
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
    page.draft = core.placeholders.Page(book, _place(page, config))
    page.first_line = _first_line(page.file.abs_src_path, markdown)
    try:
        page.source = page.draft.expand(markdown, page.first_line)
    except core.errors.PageError as error:
        raise _located(error, page) from None
    return page.source


def on_page_content(content, page, config, files):
    if config.extra["lang"] == "root":
        return content
    if notebook := getattr(page, "notebook", None):
        content = _shape_notebook(content, notebook, page, config)
    place, draft, glossary = _place(page, config), getattr(page, "draft", None), files.get_file_from_path("glossary.md")
    content = core.page.body(content, draft, book, place, get_relative_url(glossary.url, page.url) if glossary and page.file is not glossary else None)
    try:
        formulas = core.tex.find(content)
        content = core.tex.place(content, formulas, _render(formulas), page.source)
    except core.errors.PageError as error:
        if error.line:
            error.line += page.first_line - 1
        raise _located(error, page) from None
    return core.page.finish(content, draft, book, place)


def on_page_context(context, page, config, nav):
    lang = config.extra["lang"]
    _add_synonyms(page, config)
    context["root"] = _root(page, lang)
    context["languages"] = [
        {"lang": code, "name": name, "link": f"{_root(page, lang)}{code}/{'' if lang == 'root' else page.url.removeprefix('./')}"}
        for code, name in config.extra["languages"].items()
    ]
    if page.is_homepage and lang != "root" and config.extra["offline"]:
        context["offline_mib"] = round(_offline(config).stat().st_size / 2**20)
    context["has_math"] = 'class="math"' in (page.content or "")
    notebook = getattr(page, "notebook", None)
    context["stale"] = [{"lab": page.file.name}] if notebook and _stale(notebook, page) else [result for result in page.draft.numbers.used if result["stale"]] if hasattr(page, "draft") else []
    return context


def on_post_page(output, page, config):
    try:
        core.policy.refuse(page.content or "", pathlib.Path(page.file.abs_src_path).read_text("utf-8-sig"))
        if getattr(page, "notebook", None):
            output = core.notebooks.place(output, page.blocks)
        if config.extra["lang"] != "root":
            output = core.page.dress(output, config.extra["lang"])
        return _with_policy(output)
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
    env.globals["site_root"] = _site_root(config)
    env.filters["path_of"] = lambda url: urlsplit(url).path or "/"
    return env


def on_post_build(config):
    if config.extra["lang"] != "root":
        return
    for lang in config.extra["languages"]:
        log.info(f"Building {lang}")
        child = load_config(
            str(TOP / f"mkdocs.{lang}.yml"), strict=config.strict, site_dir=str(pathlib.Path(config.site_dir) / lang),
            site_url=f"{config.site_url.rstrip('/')}/{lang}/" if config.site_url else "",
        )
        child.plugins.run_event("startup", command=command, dirty=False)
        build(child)


def _read_notebook(text, page, lang):
    """A notebook's JSON, which takes the place of Markdown; its errors are the page's."""
    try:
        page.notebook = core.notebooks.read(text)
    except core.errors.PageError as error:
        raise _located(error, page) from None
    page.source, page.first_line = text, 1
    page.meta["description"] = core.notebooks.description(page.notebook, lang)
    return text


def _shape_notebook(content, notebook, page, config):
    """What mkdocs-jupyter rendered, in the site's elements, with a table of contents whose links hit."""
    lang = config.extra["lang"]
    try:
        content, page.blocks, headings = core.notebooks.shape(content, notebook, lang, core.notebooks.links(page.file.name, lang, _root(page), config.extra["gpu"], config.extra["repo"]))
    except core.errors.PageError as error:
        raise _located(error, page) from None
    page.toc = get_toc(core.notebooks.toc(headings))
    return content


def _stale(notebook, page):
    """Whether the program measures something else since the notebook's outputs were made."""
    then = "\n\n\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell.get("id", "").startswith("program-"))
    now = book.examples.get(f"{page.file.name}.py")
    return now is None or "measured" not in notebook["metadata"] or not core.results.same(then, now)


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


def _fresh_core():
    """Import core/ again, so that an edit shows in the next build; no .pyc, whose time stamp could hide an edit."""
    sys.dont_write_bytecode = True
    for folder in (str(TOP / "tools"), str(HERE)):   # core/book.py bundles with tools/bundle.py, which reads examples/kit
        if folder not in sys.path:
            sys.path.insert(0, folder)
    for name in [name for name in sys.modules if name.split(".")[0] in ("core", "bundle", "kit")]:
        del sys.modules[name]
    package = importlib.import_module("core")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"core.{module.name}")
    return package


def _write_snippets():
    """Copies of the examples with section markers, and of the captured outputs, where pymdownx.snippets finds them."""
    wanted = core.book.snippets(book)
    for path in [p for p in CACHE.rglob("*") if p.is_file()] if CACHE.is_dir() else []:
        if path.relative_to(CACHE).as_posix() not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = CACHE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def _add_synonyms(page, config):
    """Behind the search plugin, which has just put the page into its index."""
    index = next((plugin.search_index for plugin in config.plugins.values() if hasattr(plugin, "search_index")), None)
    if index is not None and "synonyms" in page.meta:
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
