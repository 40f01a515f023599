"""Words of the interface: one file a language, none missing, none unused, each in every language, filled in alike; pages hand scripts those that they ask for."""
import json
import re

import language
import pytest
import yaml
from core import book, quiz, words
from core.errors import PageError
from support import LANGUAGES, PAGES, TOP, WORDS

FILES = {lang: TOP / "docs/words" / f"{lang}.yml" for lang in LANGUAGES}
LABELS = book.labels(TOP)
SCRIPTS = {path.stem for path in (TOP / "docs/theme/js").glob("*.js")}


@pytest.fixture(scope="module")
def found():
    return book.asking(TOP, WORDS)


def trees():
    return {lang: yaml.load(path.read_text("utf-8"), yaml.BaseLoader) for lang, path in FILES.items()}


def problems(changed, found):
    return words.problems({lang: words.Words(tree) for lang, tree in changed.items()}, found, LABELS)


def edited(change, *languages):
    made = trees()
    for lang in languages or LANGUAGES:
        change(made[lang])
    return made


def test_every_word_is_asked_for_and_said_in_every_language(found):
    assert problems(trees(), found) == []
    assert len(found) > 250 and {path.rsplit(".", 1)[-1] for path in found.values()} == {"py", "html", "js", "svg"}


@pytest.mark.parametrize("name, file", [("quiz.see", "quiz.py"), ("run.tested", "run.js"), ("drawings.merge.once", "merge.svg"), ("page.report", "main.html"), ("notebooks.run", "cells.py"), ("graders.engine.late", "grader.py"),
    ("graders.online_row.few_keys.hint", "online_row/properties.py"), ("graders.any.untouched.title", "properties.py")])
def test_a_word_that_is_missing_is_named_with_the_file_that_asks_for_it(found, name, file):
    *sections, key = name.split(".")

    def drop(tree):
        for section in sections:
            tree = tree[section]
        del tree[key]

    said = problems(edited(drop), found)
    assert len(said) == 2 and all(re.fullmatch(rf"docs/words/{lang}\.yml has no word '{name}', which \S*{file} asks for", line) for lang, line in zip(LANGUAGES, said)), said


@pytest.mark.parametrize("section", ["quiz", "results", "drawings", "page", "graders"])
def test_a_word_that_nothing_asks_for_is_named(found, section):
    said = problems(edited(lambda tree: tree[section].update(nobody_says_this="x")), found)
    assert said == [f"docs/words/en.yml has the word '{section}.nobody_says_this', which nothing asks for"]


@pytest.mark.parametrize("change, complaint", [
    (lambda tree: tree["quiz"].update(mine="x"), "docs/words/zh.yml has 'quiz.mine', which en.yml lacks"),
    (lambda tree: tree["quiz"].update(at=tree["quiz"]["at"].replace("{n}", "{m}")), "docs/words/zh.yml: 'quiz.at' fills in {all}, {m}, and in en.yml {all}, {n}"),
    (lambda tree: tree["quiz"].update(see="{x}"), "docs/words/zh.yml: 'quiz.see' fills in {x}, and in en.yml nothing"),
    (lambda tree: tree["results"].pop("textbook"), "docs/words/zh.yml lacks 'results.textbook', which en.yml has"),
])
def test_languages_that_differ_are_named(found, change, complaint):
    assert problems(edited(change, "zh"), found) == [complaint]


def test_other_wording_and_a_new_word_are_no_problem(found):
    def reworded(tree):
        tree["quiz"]["see"] = tree["page"]["menu"] = 'Anything, "even" <this> & that: '
        tree["quiz"]["fresh"] = "A new word"

    changed = edited(reworded)
    assert problems(changed, {**found, "quiz.fresh": "docs/hooks/core/quiz.py"}) == []
    said = words.Words(changed["en"]).page.menu
    assert said == "Anything, &quot;even&quot; &lt;this&gt; &amp; that: " and said.text == changed["en"]["page"]["menu"], "escaped in a page, plain for a script"


def test_the_build_says_it_with_the_name(tree):
    for lang in LANGUAGES:
        tree.edit(f"docs/words/{lang}.yml", "\nquiz:\n", "\nquiz:\n  nobody: x\n")
    done = tree.build()
    assert done.returncode != 0 and "docs/words/en.yml has the word 'quiz.nobody', which nothing asks for" in done.stdout, done.stdout


@pytest.mark.parametrize("text, complaint", [
    ("a: {b: c}\na: d\n", r"docs/words/en.yml:2: 'a' stands twice"), ("a: [b]\n", r"docs/words/en.yml: a must be a section"), ("a: {b: }\n", None), ("a: b: c\n", r"docs/words/en.yml:1: mapping"), ("", r"docs/words/en.yml: the file must be a section"),
])
def test_a_file_that_is_none_is_refused(tmp_path, text, complaint):
    (tmp_path / "en.yml").write_text(text, "utf-8")
    if complaint is None:
        assert words.flat(words.load(tmp_path)["en"]) == {"a.b": ""}
        return
    with pytest.raises(PageError, match=complaint):
        words.load(tmp_path)


def test_what_is_not_given_or_not_there_is_named():
    with pytest.raises(PageError, match="quiz.at asks for 'n', and is given all"):
        WORDS["en"].quiz.at.format(all=3)
    with pytest.raises(PageError, match="no word 'quiz.nobody'"):
        WORDS["en"].quiz.nobody
    with pytest.raises(TypeError, match="quiz.at is not set here"):
        WORDS["en"].quiz.at = "x"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_page_hands_scripts_the_words_that_they_ask_for_and_no_others(site, found, lang):
    handed = words.for_scripts(WORDS[lang], found)
    for path in (TOP / "docs/theme/js").glob("*.js"):
        if path.stem in handed:                            # a word that a hook asks for too is handed all the same
            assert {name.split(".")[1] for name in words.asked({path.as_posix(): path.read_text("utf-8")})} == set(handed[path.stem]), path.name
    assert set(handed) <= SCRIPTS
    for page in [page for page in PAGES if page.startswith(lang)]:
        text = (site / page / "index.html").read_text("utf-8")
        given = json.loads(re.search(r'<script type="application/json" id="words">(.*?)</script>', text)[1])
        assert given == {name: handed[name] for name in {"site", *re.findall(r'data-widget="(\w+)"(?![^>]*data-ask=)', text)} & handed.keys()}, page


@pytest.mark.parametrize("lang", LANGUAGES)
def test_labels_of_results_are_said_part_by_part(lang):
    said, results = WORDS[lang], WORDS[lang].results
    assert words.label(said, "boolean mask") == results["boolean mask"].text
    assert words.label(said, "fp32 + GQA + boolean mask") == f"fp32 + GQA + {results['boolean mask'].text}"
    assert words.label(said, "cudnn then math") == f"cudnn{results['then'].text}math" and words.label(said, "S_q 1 S_kv 4096 + causal") == f"S_q 1 S_kv 4096 + {results.causal.text}"
    assert words.label(said, "never heard of") is None and words.label(said, "GQA + never heard of") is None


def test_what_a_language_lacks_is_listed(tmp_path):
    assert language.lacks("zh") == []
    lacking = language.lacks("fr")
    assert any("mkdocs.fr.yml" in line for line in lacking) and any("docs/fr/lesson.md" in line for line in lacking) and any("docs/words/fr.yml" in line for line in lacking)
    assert any("docs/quiz/lesson.yml" in line for line in lacking) and any(line.startswith("mkdocs.yml: ") for line in lacking)


def test_a_language_that_has_begun_is_listed_and_hurts_no_other(tree):
    (tree.top / "docs/words/fr.yml").write_text("page: { menu: Menu, mine: x }\nquiz: { at: 'Question {n}' }\n", "utf-8")
    (tree.top / "mkdocs.fr.yml").write_text("nav:\n  - Leçon: lesson.md\n", "utf-8")
    lacking = language.lacks("fr", tree.top)
    assert "docs/words/fr.yml lacks 'page.search', which en.yml has" in lacking and "docs/words/fr.yml has 'page.mine', which en.yml lacks" in lacking
    assert "docs/words/fr.yml: 'quiz.at' fills in {n}, and in en.yml {all}, {n}" in lacking
    assert "mkdocs.fr.yml: glossary.md in its navigation" in lacking and not any("lesson.md in its navigation" in line for line in lacking)
    assert not any("'page.menu'" in line for line in lacking)
    assert book.read(tree.top).words.keys() == set(LANGUAGES) == set(words.languages(tree.top))


def test_a_language_that_is_to_be_built_and_lacks_its_words_is_told_how_to_find_what_it_lacks(tree):
    tree.edit("mkdocs.yml", "  languages: {", "  languages: { fr: Français,")
    assert list(words.languages(tree.top)) == ["fr", *LANGUAGES] and not any(line.startswith("mkdocs.yml") for line in language.lacks("fr", tree.top))
    with pytest.raises(PageError, match=r"no docs/words/fr.yml. `make language LANG=fr` lists"):
        book.read(tree.top)
    (tree.top / "docs/words/fr.yml").write_bytes((tree.top / "docs/words/en.yml").read_bytes())
    with pytest.raises(PageError, match="docs/quiz/lesson.yml, question .*no text in fr"):
        quiz.load("lesson", (tree.top / "docs/quiz/lesson.yml").read_text("utf-8"), tuple(book.read(tree.top).words))
