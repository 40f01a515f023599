"""A quiz: one YAML file holds the questions in both languages, its HTML teaches without scripts, docs/theme/js/quiz.js asks and scores.

A question of choices, one of them right:              A question whose answer is a number:

    - id: why-faster                                       - id: naive-peak
      see: lesson.md#intuition                               see: lesson.md#score-matrix
      en: The question?                                      en: What does it take at S = {S}?
      zh: 问题？                                              zh: S = {S} 时占多少？
      choices:                                               number:
      - id: bytes                                              unit: MiB
        right: true                                            within: 1          # per cent
        en: A choice.                                          example: {S: 4096, answer: "1,904"}
        zh: 一个选项。                                          why: {en: "…{answer}…", zh: …}
        why: {en: The reason., zh: 理由。}                      slips:
                                                               - {id: one-matrix, en: …, zh: …}

Texts are inline Markdown; links are written as on the pages, `lesson.md#intuition`, formulas as $…$, measured numbers as placeholders.
`see` is where the answer is proven; its words are that heading. `{S}` is a number that the page draws; `example` is what stands there
without scripts. How a number is drawn and answered, and what each slip gives, is in quiz.js under the question's id.
"""
import html
import re

import markdown
import yaml

from . import tex
from .errors import PageError
from .strict import once

Loader = once(yaml.SafeLoader)
SLOT = re.compile(r"\{([A-Za-z]\w*)\}")


def load(name, text, languages):
    """The questions of docs/quiz/<name>.yml, checked, each in these languages. Raises PageError naming the file and the question."""
    try:
        questions = yaml.load(text, Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise PageError(f"docs/quiz/{name}.yml{f':{mark.line + 1}' if mark else ''}: {getattr(error, 'problem', None) or error}.") from None
    except PageError as error:
        raise PageError(f"docs/quiz/{name}.yml:{error.line}: {error} in one mapping.") from None
    if not isinstance(questions, list) or not questions:
        raise PageError(f"docs/quiz/{name}.yml must be a list of questions.")
    seen = set()
    for number, question in enumerate(questions, 1):
        called = question.get("id") if isinstance(question, dict) else None
        try:
            _identified(question, seen)
            _check(question, languages)
        except PageError as error:
            raise PageError(f"docs/quiz/{name}.yml, question {called or number}: {error}") from None
    return questions


def _identified(part, seen):
    if not isinstance(part, dict) or not re.fullmatch(r"[a-z][a-z0-9-]*", str(part.get("id"))):
        raise PageError(f"it needs an id of small letters, digits and hyphens, and has {part.get('id') if isinstance(part, dict) else part!r}.")
    if part["id"] in seen:
        raise PageError(f"the id '{part['id']}' is taken.")
    seen.add(part["id"])


def _keys(part, what, needed, optional=()):
    for key in needed:
        if part.get(key) in (None, "", [], {}):
            raise PageError(f"{what} lacks '{key}'.")
    for key in part:
        if key not in (*needed, *optional):
            raise PageError(f"{what} has '{key}', which means nothing.")


def _spoken(part, what, languages):
    for lang in languages:
        if not isinstance(part, dict) or not isinstance(part.get(lang), str) or not part[lang].strip():
            raise PageError(f"{what} has no text in {lang}.")


def _check(question, languages):
    _spoken(question, "the question", languages)
    if ("choices" in question) == ("number" in question):
        raise PageError("it needs either 'choices' or a 'number'.")
    _keys(question, "it", ["id", "see", *languages, "choices" if "choices" in question else "number"])
    (_check_choices if "choices" in question else _check_number)(question, languages)


def _check_choices(question, languages):
    choices, seen = question["choices"], set()
    if not isinstance(choices, list) or not 3 <= len(choices) <= 5:
        raise PageError("it needs 3 to 5 choices.")
    for choice in choices:
        _identified(choice, seen)
        what = f"choice {choice['id']}"
        _spoken(choice, what, languages)
        _spoken(choice.get("why"), f"the explanation (why) of {what}", languages)
        _keys(choice, what, ["id", *languages, "why"], ["right"])
        _keys(choice["why"], f"why of {what}", languages)
        if choice.get("right", True) is not True:
            raise PageError(f"{what}: write 'right: true', or nothing.")
    right = [choice["id"] for choice in choices if "right" in choice]
    if len(right) != 1:
        raise PageError(f"one choice must be right, and {', '.join(right) + ' are' if right else 'none is'}.")
    for lang in languages:
        if len({choice[lang].strip() for choice in choices}) < len(choices):
            raise PageError(f"two choices are the same in {lang}.")


def _check_number(question, languages):
    number, seen = question["number"], set()
    if not isinstance(number, dict):
        raise PageError("'number' needs unit, within, example, why and slips.")
    _keys(number, "number", ["within", "example", "why", "slips"], ["unit"])
    if not isinstance(number.get("unit"), str):
        raise PageError('number lacks \'unit\'; a plain number has unit: "".')
    if isinstance(number["within"], bool) or not isinstance(number["within"], (int, float)) or not 0 < number["within"] < 4:
        raise PageError("'within' is a number of per cent above 0 and below 4: MB taken for MiB must be told apart.")
    _spoken(number["why"], "the explanation (why)", languages)
    for slip in number["slips"]:
        _identified(slip, seen)
        _spoken(slip, f"slip {slip['id']}", languages)
        _keys(slip, f"slip {slip['id']}", ["id", *languages])
    slots = {lang: [set(SLOT.findall(text)) for text in (question[lang], number["why"][lang], *(slip[lang] for slip in number["slips"]))] for lang in languages}
    model, *others = slots.values()
    if any(slots != model for slots in others):
        raise PageError("its languages show different numbers in braces.")
    missing = set().union({"answer"}, *model) - set(number["example"])
    if missing:
        raise PageError(f"its example lacks {', '.join(sorted(missing))}.")


def render(name, numbers):
    """HTML of the quiz, each question a collapsible with its answer; a heading of the site says where each is proven. numbers: measured.Numbers of the page."""
    if name not in numbers.book.quizzes:
        raise PageError(f"there is no docs/quiz/{name}.yml.")
    made = []
    for question in load(name, numbers.book.quizzes[name], tuple(numbers.book.words)):
        try:
            made.append(_question(question, f"docs/quiz/{name}.yml, question {question['id']}", numbers))
        except PageError as error:
            raise PageError(f"docs/quiz/{name}.yml, question {question['id']}: {error}") from None
    return f'<ol class="questions">{"".join(made)}</ol>'


def _question(question, where, numbers):
    lang, words = numbers.place.lang, numbers.words
    address, title = _target(question["see"], where, numbers)
    see = f'<p class="see">{words.quiz.see}{words.quiz.space}<a href="{address}">{title}</a></p>'
    example = question["number"]["example"] if "number" in question else {}

    def text(part):
        return _inline(part[lang], example, where, numbers)

    if "choices" in question:
        attributes = ""
        body = "<ul>" + "".join(
            f'<li data-id="{c["id"]}"{" data-right" if "right" in c else ""}><span>{text(c)}</span><p class="why"><b>{words.quiz.right if "right" in c else words.quiz.wrong}</b>{words.quiz.space}{text(c["why"])}</p></li>'
            for c in question["choices"]
        ) + "</ul>"
    else:
        number = question["number"]
        attributes = f' data-unit="{html.escape(number["unit"], quote=True)}" data-within="{number["within"]}"'
        answer = f'<b>{words.quiz.answer}{words.quiz.space}<span data-slot="answer">{html.escape(str(example["answer"]))}</span>{html.escape(" " + number["unit"] if number["unit"] else "")}{words.quiz.stop}</b>'
        slips = "".join(f'<li data-id="{slip["id"]}">{text(slip)}</li>' for slip in number["slips"])
        body = f'<p class="why">{answer}{words.quiz.space}{text(number["why"])}</p><p class="slips">{words.quiz.slips}</p><ul>{slips}</ul>'
    return f'<li data-id="{question["id"]}"{attributes}><details><summary>{text(question)}</summary>{body}{see}</details></li>'


def _target(link, where, numbers):
    """(address, heading) of `page.md#anchor`. Raises PageError where the page or the heading is not there."""
    name, _, anchor = link.partition("#")
    place, pages = numbers.place, numbers.book.pages[numbers.place.lang]
    if name not in pages:
        raise PageError(f"the link {link} leads to no page of docs/{place.lang}.")
    text = re.sub(r"(?ms)^\s*(`{3,})[^\n]*\n.*?^\s*\1\s*$", "", pages[name])
    heading = re.search(rf"^#{{1,6}} +(.+?) *\{{ *#{re.escape(anchor)} *\}}" if anchor else r"^# +(.+?) *(?:\{.*\})?$", text, re.M)
    if not heading:
        raise PageError(f"the link {link} leads to no heading of docs/{place.lang}/{name}.")
    page = name.removesuffix(".md")
    address = "" if name == place.page and anchor else f"{place.root}{place.lang}/{'' if page == 'index' else page + '/'}"
    return address + (f"#{anchor}" if anchor else ""), _inline(heading[1], {}, where, numbers)


def _markdown():
    """Python-Markdown without blocks: a text that begins with a number is no list."""
    reader = markdown.Markdown()
    for block in ("indent", "code", "hashheader", "setextheader", "hr", "olist", "ulist", "quote", "reference"):
        reader.parser.blockprocessors.deregister(block)
    return reader


def _inline(text, example, where, numbers):
    """HTML of inline Markdown with links, formulas, measured numbers and slots."""
    kept = []

    def keep(made):
        kept.append(made)
        return f"\ue000{len(kept) - 1}\ue001"

    text = re.sub(r"`[^`]+`", lambda m: keep(f"<code>{html.escape(m[0][1:-1], quote=False)}</code>"), text)
    text = re.sub(r"\{\{.*?\}\}(?: [A-Za-z]+)?", lambda m: keep(numbers.fill(m[0])), text)
    text = re.sub(r"\$([^$\n]+)\$", lambda m: keep(tex.mark(m[1], where)), text)
    text = SLOT.sub(lambda m: keep(f'<span data-slot="{m[1]}">{html.escape(str(example[m[1]]))}</span>') if m[1] in example else m[0], text)
    text = re.sub(r"\]\(([\w-]+\.md(?:#[\w-]+)?)\)", lambda m: f"]({_target(m[1], where, numbers)[0]})", text)
    made = _markdown().convert(text.strip())
    if not re.fullmatch(r"<p>.*</p>", made, re.S) or made.count("<p>") != 1:
        raise PageError(f"a text must be one paragraph: {text.strip()[:60]}…")
    made = made.removeprefix("<p>").removesuffix("</p>").replace("\n", " ")
    return re.sub("\ue000(\\d+)\ue001", lambda m: kept[int(m[1])], made)
