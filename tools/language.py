"""What a language still lacks, beside English, as a list. The other languages are built as before.

    python tools/language.py fr
"""
import json
import pathlib
import re
import sys

import yaml

TOP = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "docs/hooks"))
from core import words  # noqa: E402
from core.errors import PageError  # noqa: E402


def lacks(lang, top=TOP, model="en"):
    """Lines, each with the file to write or to add to."""
    return [*_settings(lang, top, model), *_pages(lang, top, model), *_words(lang, top, model), *_texts(lang, top)]


def _settings(lang, top, model):
    if not re.search(rf"^  languages: \{{.*\b{lang}: ", (top / "mkdocs.yml").read_text("utf-8"), re.M):
        yield f"mkdocs.yml: its name under extra: languages, {lang}: …"
    if not re.search(rf'href="{lang}/"', (top / "docs/root/index.md").read_text("utf-8")):
        yield f"docs/root/index.md: a link to {lang}/"
    settings = top / f"mkdocs.{lang}.yml"
    if not settings.is_file():
        yield f"mkdocs.{lang}.yml: its configuration, after mkdocs.{model}.yml"
        return
    linked = re.findall(r"^ +- .*: (\S+\.md)$", settings.read_text("utf-8"), re.M)
    for page in re.findall(r"^ +- .*: (\S+\.md)$", (top / f"mkdocs.{model}.yml").read_text("utf-8"), re.M):
        if page not in linked:
            yield f"mkdocs.{lang}.yml: {page} in its navigation"


def _pages(lang, top, model):
    for path in sorted((top / "docs" / model).rglob("*.md")):
        if not (top / "docs" / lang / (name := path.relative_to(top / "docs" / model))).is_file():
            yield f"docs/{lang}/{name.as_posix()}: the page"


def _words(lang, top, model):
    if not (top / f"docs/words/{lang}.yml").is_file():
        yield f"docs/words/{lang}.yml: its words, {len(words.flat(words.load(top / 'docs/words')[model]))} of them"
        return
    try:
        known = words.load(top / "docs/words")
        yield from words.unlike({model: known[model], lang: known[lang]})
    except PageError as error:
        yield str(error)


def _texts(lang, top):
    """Questions and statements hold their texts in every language."""
    for path in sorted([*(top / "docs/quiz").glob("*.yml"), *(top / "docs/evidence").glob("*.json")]):
        data = yaml.load(path.read_text("utf-8"), yaml.BaseLoader) if path.suffix == ".yml" else json.loads(path.read_text("utf-8"))
        missing = sum(lang not in part for part in _spoken(data))
        if missing:
            yield f"{path.relative_to(top).as_posix()}: '{lang}' beside 'en', in {missing} places"


def _spoken(data):
    parts = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    yield from [data] if isinstance(data, dict) and isinstance(data.get("en"), str) else []
    for part in parts:
        yield from _spoken(part)


def main(arguments):
    if len(arguments) != 1 or not re.fullmatch(r"[a-z]{2}", arguments[0]):
        print("Which language? Two letters: make language LANG=fr", file=sys.stderr)
        return 2
    found = lacks(*arguments)
    print("\n".join(found) or f"{arguments[0]} lacks nothing.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
