"""All that pages are made from, read once in a build and never changed: a page's way from its Markdown to its HTML takes it as an argument.

Later modules take a Book; this one knows only those that read.
"""
import re
from dataclasses import dataclass, field, fields
from types import MappingProxyType

import bundle
import yaml

from . import cells, evidence, exercises, glossary, results, sections, theatre
from .errors import PageError
from .words import asked, for_scripts, languages, load, plain, problems


def _table():
    return field(default_factory=dict)


@dataclass(frozen=True)
class Book:
    """What one build knows.

    results   {(gpu, lab): result} as results.load gives it
    cells     {(gpu, lab): what the cells of its notebook gave} as cells.load gives it
    evidence  {name: evidence} of docs/evidence/<name>.json
    examples  {name: text} of the example files, as the site serves them
    outputs   {name: text} of what the examples print, as captured
    drawings  {name: SVG} with keys where words stand
    quizzes   {name: text} of docs/quiz/<name>.yml
    pages     {lang: {name: Markdown}}, with their front matter
    glossary  {lang: glossary.Glossary}
    words     {lang: its Words} of docs/words
    scripts   {lang: {script: words}}, what the page hands a script
    theatre   the tile theatre as it stands before a script runs, as theatre.still gives it
    python    bytes that the first run of Python in a page fetches
    """

    results: dict = _table()
    cells: dict = _table()
    evidence: dict = _table()
    examples: dict = _table()
    outputs: dict = _table()
    drawings: dict = _table()
    quizzes: dict = _table()
    pages: dict = _table()
    glossary: dict = _table()
    words: dict = _table()
    scripts: dict = _table()
    theatre: dict = _table()
    python: int = 0

    def __post_init__(self):
        for each in fields(self):
            if isinstance(value := getattr(self, each.name), dict):
                object.__setattr__(self, each.name, MappingProxyType(value))


@dataclass(frozen=True)
class Place:
    """Where a page stands: its language and name ("lesson.md"), the relative address of the site's root from it ("../../"),
    where the site is published ("" while unknown), and the card that is meant where a placeholder names none."""

    lang: str = "en"
    page: str = ""
    root: str = ""
    site: str = ""
    gpu: str = ""


FACTS = ("docs/evidence", "docs/hooks", "docs/quiz", "docs/theme", "docs/words", "examples", "tools")   # what facts() reads; with the code and the languages, all that it depends on


def read(top, known=None):
    """The Book of the tree at `top`; known: its facts(), where they are at hand. Raises PageError naming the file that is not as it must be."""
    pyodide = top / "node_modules" / "pyodide"
    pages = {lang: {path.name: path.read_text("utf-8-sig") for path in sorted((top / "docs" / lang).glob("*.md"))} for lang in languages(top)}
    return Book(
        **(known or facts(top)), pages=pages,
        glossary={lang: _glossary(lang, pages[lang]["glossary.md"]) for lang in pages if "glossary.md" in pages[lang]},
        python=sum((pyodide / name).stat().st_size for name in ("pyodide.asm.wasm", "python_stdlib.zip")),
    )


def facts(top):
    """{field: value} of the Book beside the pages' own texts: of the folders FACTS alone, which an edit of a page leaves as they are."""
    docs, examples = top / "docs", top / "examples"
    words, found = _words(top)
    programs = _examples(examples, words)
    found_results, scripts = results.load(examples / "results", examples, programs), {lang: for_scripts(words[lang], found) for lang in words}
    return dict(
        results=found_results,
        cells=cells.load(examples / "results", programs),
        evidence={path.stem: evidence.load(path) for path in sorted((docs / "evidence").glob("*.json"))},
        examples=programs,
        outputs={path.name: path.read_text("utf-8") for path in sorted((examples / "outputs").glob("*.txt"))},
        drawings={path.stem: path.read_text("utf-8") for path in sorted((docs / "theme" / "drawings").glob("*.svg"))},
        quizzes={path.stem: path.read_text("utf-8") for path in sorted((docs / "quiz").glob("*.yml"))},
        words=words,
        scripts=scripts,
        theatre=theatre.still(top, found_results, scripts),
    )


def sources(top):
    """{path: text} of all that asks for words: hooks, templates, scripts, drawings."""
    hooks, theme = top / "docs" / "hooks", top / "docs" / "theme"
    paths = [*hooks.rglob("*.py"), *theme.rglob("*.html"), *theme.rglob("*.js"), *(theme / "drawings").glob("*.svg")]
    return {path.relative_to(top).as_posix(): path.read_text("utf-8") for path in sorted(paths)
            if path != hooks / "core" / "words.py"}


def asking(top, known):
    """{name of a word: the file that asks for it}."""
    return asked(sources(top)) | exercises.asked(top / "examples" / "exercises", plain(next(iter(known.values()))["graders"]))


def labels(top):
    """The texts in which programs and results write labels."""
    return [path.read_text("utf-8") for path in [*(top / "examples").glob("*.py"), *results.files(top / "examples" / "results")]]


def _words(top):
    """({lang: Words}, what asks for them), or a PageError that names every word that is missing, unused or not the same in each language."""
    known = load(top / "docs" / "words")
    if missing := set(languages(top)) - set(known):
        raise PageError(f"there is no docs/words/{min(missing)}.yml. `make language LANG={min(missing)}` lists what that language lacks.")
    known = {lang: known[lang] for lang in languages(top)}
    found = asking(top, known)
    if said := problems(known, found, labels(top)):
        raise PageError("; ".join(said) + ".")
    return known, found


def snippets(book):
    """{name: text} of what a fence may include: the examples with marks around their sections, and the captured outputs."""
    return {name: sections.mark(text.replace("\r\n", "\n")) if name.endswith(".py") else text for name, text in book.examples.items()} | {f"outputs/{name}": text for name, text in book.outputs.items()}


def notebooks(book, lang, gpu):
    """{lab: text of its notebook} of those that the overview of a language leads to, as a card ran them. Raises PageError."""
    made, pages = {}, book.pages[lang]
    for lab in cells.labs(pages):
        if f"{lab}.py" not in book.examples:
            raise PageError(f"docs/{lang}/notebooks.md: it leads to the notebook of {lab}, and there is no examples/{lab}.py.")
        made[lab] = cells.dumps(cells.make(lab, lang, book.examples, book.words[lang], pages, book.cells.get((gpu, lab))))
    return made


def front_matter(text):
    """(what the front matter of a page says, the Markdown below it)."""
    found = re.match(r"---[ \t]*\n(.*?\n)(?:---|\.\.\.)[ \t]*\n", text, re.S)
    return (yaml.safe_load(found[1]) or {}, text[found.end():]) if found else ({}, text)


def _examples(folder, words):
    """The programs as single files, the kernels of the browser, and of each exercise what is made of its folder."""
    kernels = {path.relative_to(folder).as_posix(): path.read_bytes().decode("utf-8") for path in sorted(folder.glob("webgpu/*.wgsl"))}
    inner = folder / "exercises"
    try:
        return bundle.published(folder) | kernels | exercises.served(inner, {lang: plain(words[lang]["graders"]) for lang in words})
    except bundle.BundleError as error:
        raise PageError(f"examples: {error}") from None


def _glossary(lang, text):
    try:
        front, markdown = front_matter(text)
        return glossary.Glossary.of(markdown, front.get("words", {}))
    except (PageError, yaml.YAMLError) as error:
        raise PageError(f"docs/{lang}/glossary.md: {error}") from None
