"""Every word that the site shows beside its prose: docs/words/<lang>.yml, nested by who says it, with the same keys in each language.

Who says a word names it where it is said, and so a build knows without running anything which words are missing and which are not used:

    words.quiz.right        in Python and in templates: from the top, however it came there
    words.right             in docs/theme/js/quiz.js: of its own section; the page hands a script these words and no others
    {{rescale}}             in docs/theme/drawings/merge.svg: of drawings: merge:

A word in Python is text for HTML, escaped; `.text` says it as it is written.
"""
import html
import re

import yaml

from .errors import PageError
from .strict import once

Loader = once(yaml.BaseLoader)                             # every scalar is text: `no` is a word
SLOT = re.compile(r"\{(\w*)")
PATH = re.compile(r"""(?<![\w'"/-])words((?:\.[A-Za-z_]\w*)+)""")   # a name in code, and no file's
OWN = {"js": PATH, "svg": re.compile(r"\{\{([\w-]+)\}\}")}
LABEL = re.compile(r" \+ | then ")                         # what joins the parts of a result's label
NAME = re.compile(r"\S+|\w+ \d+( \w+ \d+)*")               # d 100: the same in every language


class Word(str):
    """A word, escaped for HTML; it knows its name, for the message when what it asks for is not given."""

    def __new__(cls, text, name):
        made = super().__new__(cls, html.escape(text, quote=False).replace('"', "&quot;"))
        made.text, made.name = text, name
        return made

    def __reduce__(self):
        return Word, (self.text, self.name)

    def format(self, **values):
        try:
            return super().format(**values)
        except (KeyError, IndexError, ValueError) as error:
            raise PageError(f"docs/words: {self.name} asks for {error}, and is given {', '.join(values)}.") from None


class Words:
    """The words of a language, or a section of them: `words.quiz.right`, `words["results"]`. Nothing changes them."""

    __slots__ = ("_words", "_name")

    def __init__(self, tree, name=""):
        made = {key: Words(value, f"{name}{key}.") if isinstance(value, dict) else Word(value, f"{name}{key}") for key, value in tree.items()}
        object.__setattr__(self, "_words", made)
        object.__setattr__(self, "_name", name)

    def __setattr__(self, key, value):
        raise TypeError(f"words are read from docs/words, and {self._name}{key} is not set here")

    def __getattr__(self, key):
        if key.startswith("__"):
            raise AttributeError(key)
        return self[key]

    def __getitem__(self, key):
        if key not in self._words:
            raise PageError(f"docs/words has no word '{self._name}{key}'.")
        return self._words[key]

    def __reduce__(self):
        return Words, (plain(self), self._name)

    def __repr__(self):
        return repr(plain(self))                           # says all: what a build keeps is kept by it

    def __contains__(self, key):
        return key in self._words

    def __iter__(self):
        return iter(self._words)


def languages(top):
    """{code: its name} of the languages that are built, the model first: `extra: languages` of mkdocs.yml, which MkDocs reads too.
    One that is only begun does not stand there and hurts no other; `make language` lists what it lacks."""
    return yaml.safe_load(re.search(r"^  languages: (\{.*\})$", (top / "mkdocs.yml").read_text("utf-8"), re.M)[1])


def load(folder):
    """{language: Words} of <folder>/<language>.yml. Raises PageError naming the file for what is no text under a key."""
    return {path.stem: Words(_read(path)) for path in sorted(folder.glob("*.yml"))}


def _read(path):
    try:
        tree = yaml.load(path.read_text("utf-8"), Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise PageError(f"docs/words/{path.name}{f':{mark.line + 1}' if mark else ''}: {getattr(error, 'problem', None) or error}.") from None
    except PageError as error:
        raise PageError(f"docs/words/{path.name}:{error.line}: {error}.") from None
    _check(tree, path.name, "")
    return tree


def _check(tree, file, name):
    if not isinstance(tree, dict) or not tree:
        raise PageError(f"docs/words/{file}: {name or 'the file'} must be a section, keys with texts.")
    for key, value in tree.items():
        if not isinstance(value, str):
            _check(value, file, f"{name}.{key}".lstrip("."))


def flat(words):
    """{name: text} of all words: `quiz.right`."""
    return {word.name: word.text for word in _leaves(words)}


def _leaves(words):
    for key in words:
        yield from _leaves(words[key]) if isinstance(words[key], Words) else [words[key]]


def asked(sources):
    """{name of a word or section: the file that asks for it}. sources: {path: text} of hooks, templates, scripts, drawings, tools."""
    found = {}
    for path, text in sources.items():
        stem, kind = path.rsplit("/", 1)[-1].rsplit(".", 1)
        before = {"js": f"{stem}.", "svg": f"drawings.{stem}."}.get(kind, "")
        for name in OWN.get(kind, PATH).findall(text):
            if kind == "js" or before + name.lstrip(".") not in found:    # a script is named first: the page hands it the word
                found[before + name.lstrip(".")] = path
    return found


def problems(words, found, labels=()):
    """What is wrong with the words of several languages, as lines: missing, not used, not the same in each.

    words   {language: Words}
    found   what asked() finds
    labels  texts in which programs and results write their labels: a word of `results` is used where it stands in one
    """
    first, texts = next(iter(words)), {lang: flat(of) for lang, of in words.items()}
    used, said = set(), []
    for lang, names in texts.items():
        for name, path in found.items():
            place, there = _resolve(words[lang], name)
            if not there:
                said.append(f"docs/words/{lang}.yml has no word '{place}', which {path} asks for")
            elif lang == first:
                used |= {name for name in names if name == place or name.startswith(f"{place}.")}
    used |= {name for name in texts[first] if name.startswith("results.") and any(name.removeprefix("results.") in text for text in labels)}
    said += [f"docs/words/{first}.yml has the word '{name}', which nothing asks for" for name in texts[first] if name not in used]
    return list(dict.fromkeys(said + unlike(words)))


def unlike(words):
    """Where the first of several languages and the others have not the same keys, or a word fills in other things, as lines."""
    (first, *others), texts, said = words, {lang: flat(of) for lang, of in words.items()}, []
    for lang in others:
        said += [f"docs/words/{lang}.yml lacks '{name}', which {first}.yml has" for name in texts[first] if name not in texts[lang]]
        said += [f"docs/words/{lang}.yml has '{name}', which {first}.yml lacks" for name in texts[lang] if name not in texts[first]]
        for name in texts[first]:
            here, there = (set(SLOT.findall(text.get(name, texts[first][name]))) for text in (texts[first], texts[lang]))
            if here != there:
                said.append(f"docs/words/{lang}.yml: '{name}' fills in {_braces(there)}, and in {first}.yml {_braces(here)}")
    return said


def _braces(names):
    return ", ".join(f"{{{name}}}" for name in sorted(names)) or "nothing"


def _resolve(words, name):
    """(the name of the word or section that code asks for, whether it is there): what follows a word is a method of it."""
    place = []
    for key in name.split("."):
        if not isinstance(words, Words):
            break
        place.append(key)
        if key not in words:
            return ".".join(place), False
        words = words[key]
    return ".".join(place), True


def for_scripts(words, found):
    """{script: its words} for the page's JSON: those that the script asks for, as they are written."""
    made = {}
    for name, path in found.items():
        if path.endswith(".js"):
            script, key = name.split(".")[:2]
            made.setdefault(script, {})[key] = plain(words[script][key])
    return made


def plain(word):
    """A word or a section as it is written."""
    return {key: plain(word[key]) for key in word} if isinstance(word, Words) else word.text


def label(words, value):
    """A result's label in the page's language, part by part, as text; None for one of several words that is not in docs/words."""
    if value in words.results:
        return words.results[value].text
    parts = LABEL.split(value)
    if len(parts) == 1:
        return value if NAME.fullmatch(value) else None
    joints = [words.results["then"].text if joint == " then " else joint for joint in LABEL.findall(value)]
    said = [label(words, part) for part in parts]
    return None if None in said else "".join(part + joint for part, joint in zip(said, [*joints, ""]))
