"""Honest edits that must cost nothing: each row makes one, and all that reads the edited file must stay green, without a GPU. `make edits` makes them all.

    python tools/edits.py            every row alone, two at a time; then the whole suite on all of them at once
    python tools/edits.py NAME …     some rows, each alone
    python tools/edits.py --list

The twin of tools/mutations.py: `beside` names the mutations, in the same kind of place, that turn the checks red, so that green here says something.
A row alone runs `make quick` and every other test file that reads the edited one (`readers`, by machine), but for what needs a browser or a build of its own:
that runs on all edits at once. `make test` runs `make quick` on all edits at once (tests/test_edits.py).
Exit status 0 only when all is green.
"""
import contextlib
import pathlib
import re
import sys
import tempfile
import typing

from trials import Place, chosen, each
from tree import TOP

ROWS = "tests/test_mutations.py::test_every_row_still_stands_in_its_file"   # it reads every file that a mutation edits
STALE = 'class="stale"'   # the mark beside what was measured before its program changed


class Edit(typing.NamedTuple):
    name: str
    edits: tuple       # of (file, pattern, replacement): the first match
    beside: tuple      # names of mutations
    marks: tuple = ()  # built pages that say 'measured before the last change'


def E(name, file, pattern, new, *beside, marks=()):
    return Edit(name, ((file, re.compile(pattern), new),), beside, marks)


def everywhere(pattern, new):
    """(pattern, replacement) of all places of a file at once."""
    return re.compile(r"(?s)\A.*\Z"), lambda whole: re.sub(pattern, new, whole[0])


MEMORY, ERROR = "examples/flash_vs_naive_memory.py", "examples/attention_error.py"
QUIZ = "docs/quiz/lesson.yml"
EN, ZH = r"(\n## [^\n]+\n\n)(?=[A-Z])", r"(\n## [^\n]+\n\n)(?=[\u4e00-\u9fff])"   # where the first paragraph of a section begins
OLD = ("stale-number-without-its-mark", "no-row-answers-for-its-program")

EDITS = [
    # A lab: what only speaks
    *[edit for lab, file in (("memory", MEMORY), ("error", ERROR)) for edit in (
        E(f"comment-in-{lab}", file, r"\n\n(?=def check\()", "\n\n# Whoever compares attention begins here.\n", "identity-with-docstrings", "finite-minus-infinity"),
        E(f"comment-at-the-top-of-{lab}", file, r"(\n[A-Z_]+ = [^\n#]*[^\s#(\[{])\n", r"\1   # as good as any\n", "identity-with-docstrings"),
        E(f"docstring-of-{lab}", file, r'\A(#!.*\n)?"""(?=[A-Z])', r'\1"""In short: ', "identity-with-docstrings"),
        E(f"docstring-of-a-function-of-{lab}", file, r'(\ndef check\([^\n]*\n    """)', r"\1In short: ", "identity-with-docstrings"),
        E(f"label-of-{lab}", file, r'(\ndef header\(part\):\n(?:    """.*?"""\n)?    return \{\n        "\w+": f?")', r"\1Measured: ", "captured-output-edited"),
    )],
    Edit("column-order-of-error", ((ERROR, re.compile(r"rel\. error      RMSE   largest   allowed"), "   RMSE  rel. error   largest   allowed"),
                                   (ERROR, re.compile(r"\{number\(row\['rel_err'\], 10\)\} \{number\(row\['rmse'\]\)\} (?=\{number\(row\['max_err'\]\)\} \"\n)"), "{number(row['rmse'])} {number(row['rel_err'], 10)} ")),
         ("captured-output-edited", "columns-of-a-table-changed-places")),
    Edit("column-order-of-memory", ((MEMORY, re.compile(r"KV heads  causal      S  naive"), "causal  KV heads      S  naive"),
                                    (MEMORY, re.compile(r"\{row\['kv_heads'\]:8\}  \{yes_no\(row\['causal'\]\):>6\}"), "{yes_no(row['causal']):>6}  {row['kv_heads']:8}")),
         ("captured-output-edited", "columns-of-a-table-changed-places")),
    Edit("column-of-error-renamed", ((ERROR, *everywhere("naive/this", "naive/it")),), ("captured-output-edited",)),
    Edit("column-of-memory-renamed", ((MEMORY, *everywhere("naive MiB      off", "plain MiB      off")),), ("captured-output-edited",)),
    Edit("private-function-of-error-renamed", ((ERROR, *everywhere(r"\bkernel_text\b", "kernels_in_words")),), ("identity-with-names", "example-needs-a-sibling")),
    Edit("private-function-of-memory-renamed", ((MEMORY, *everywhere(r"\bgive_jobs\b", "hand_out")),), ("identity-with-names", "example-needs-a-sibling")),

    # A lab: what is measured. The pages go on, and say so.
    E("another-length-of-traffic", "examples/hbm_traffic.py", r"(\nLENGTHS = \([^)]*)\)", r"\1, 32768)", *OLD, marks=("en/roofline/", "zh/roofline/")),
    E("more-parts-of-decode", "examples/decode_attention.py", r"(\nPARTS = \([^)]*)\)", r"\1, 512)", *OLD, marks=("en/decode/", "zh/decode/")),
    E("another-shape-of-error", ERROR, r"(\nSHAPE = \{[^}]*\"S\": )4096", r"\g<1>2048", *OLD, marks=("en/measured/", "zh/measured/")),

    # A page, in one language
    E("sentence-of-ring", "docs/en/ring.md", EN, r"\1In other words: ", "a-claim-in-one-language", "bold-ends-in-punctuation"),
    E("sentence-of-backward-zh", "docs/zh/backward.md", ZH, r"\1换句话说，", "a-claim-in-one-language", "bold-ends-in-punctuation"),
    E("claim-of-ring", "docs/en/ring.md", r'(<span data-claim="[\w-]+">)(?=it needs)', r"\1as measured, ", "a-claim-in-one-language"),
    E("sentence-of-decode", "docs/en/decode.md", EN, r"\1In other words: ", "a-claim-in-one-language", "bold-ends-in-punctuation"),
    E("heading-behind-a-fence-of-decode", "docs/en/decode.md", r"(\n## )([^\n]+ \{ #sides \})", r"\1Side by side: \2", "zh-heading-has-another-id"),
    E("claim-of-lesson-zh", "docs/zh/lesson.md", r'(<span data-claim="[\w-]+">)', r"\1也就是说，", "a-claim-in-one-language"),
    E("claim-in-the-quiz", QUIZ, r"(\n    why:\n      en: )(?=[A-Z])", r"\1In other words, ", "quiz-another-choice-is-right"),
    E("heading-of-ring", "docs/en/ring.md", r"(\n## )([^\n]+ \{ #order \})", r"\1In any order: \2", "zh-heading-has-another-id"),
    E("heading-behind-a-fence-of-lesson-zh", "docs/zh/lesson.md", r"(\n## 5\. )([^\n]+ \{ #)", r"\1动手：\2", "numbered-sections-out-of-order"),
    E("table-header-of-ring", "docs/en/ring.md", r"(\n\| S \| )(?=time, ms \{ms\})", r"\1kernel ", "columns-of-a-table-changed-places"),
    E("table-header-of-lesson-zh", "docs/zh/lesson.md", r"(\n\| S \| [^|\n]*?)(?=（MiB）)", r"\1的峰值", "columns-of-a-table-changed-places"),

    # The quiz and the exercises
    E("choice-of-the-quiz", QUIZ, r"(\n  - id: pruning\n    en: )", r"\1In effect, ", "quiz-another-choice-is-right"),
    E("right-choice-of-the-quiz-zh", QUIZ, r"(\n    right: true\n    en: [^\n]*\n    zh: )(?=[\u4e00-\u9fff])", r"\1其实，", "quiz-another-choice-is-right"),
    E("explanation-of-the-quiz", QUIZ, r"(\n      en: )(Launching takes)", r"\1In fact, launching takes", "quiz-another-choice-is-right"),
    E("explanation-of-the-quiz-zh", QUIZ, r"(\n    why:\n      en: [^\n]*\n      zh: )(?=[\u4e00-\u9fff])", r"\1要点是：", "quiz-another-choice-is-right"),
    E("text-of-an-exercise", "docs/en/exercises.md", EN, r"\1In other words: ", "exercise-under-another-heading"),
    E("text-of-an-exercise-zh", "docs/zh/exercises.md", ZH, r"\1换句话说，", "exercise-under-another-heading"),

    # Words beside the prose
    E("wording-of-a-drawing", "docs/words/en.yml", r"(\n    exact: )Equal in", r"\1Same in", "word-is-missing", "drawing-in-another-section"),
    E("wording-of-a-drawing-zh", "docs/words/zh.yml", r"(\n    stream: 分块)依次", r"\1逐个", "word-is-missing", "drawing-in-another-section"),
    E("words-of-a-grader", "docs/words/en.yml", r'(\n    unwritten: )"[^"\n]*"', r'\1"nothing is written yet"', "word-is-missing"),
    E("words-of-an-exercise-zh", "docs/words/zh.yml", r"(\nexercise:\n(?:  .*\n)*?  solved: )[^\n]*", r"\1全部成立，解出来了。", "word-is-missing"),
    E("interface-word", "docs/words/en.yml", r'(\n  notest: )"[^"\n]*"', r'\1"The tests do not run this: "', "word-is-asked-for-and-not-there"),
    Edit("new-interface-word", (("docs/words/en.yml", re.compile(r"(\n  notest: )"), r'\n  noted: "Note: "\1'), ("docs/words/zh.yml", re.compile(r"(\n  notest: )"), r"\n  noted: 注意：\1"),
                                ("docs/hooks/core/html.py", re.compile(r"\{words\.page\.notest\}"), "{words.page.noted}{words.page.notest}")),
         ("word-that-nothing-asks-for", "word-is-asked-for-and-not-there", "word-is-missing")),
]


def quick():
    """What `make quick` hands to pytest."""
    text = (TOP / "Makefile").read_text("utf-8")
    stems, folders = re.search(r"^QUICK = \$\(addprefix tests/test_,\$\(addsuffix \.py,(.*?)\)\) (.*)$", text, re.M).groups()
    return [*(f"tests/test_{stem}.py" for stem in stems.split()), *folders.split()]


def readers(file):
    """The test files that read this one: they name it, or a module of tests or tools that they import does."""
    modules = {path.stem: path for folder in ("tests", "tools") for path in sorted((TOP / folder).glob("*.py")) if path.stem not in ("edits", "mutations", "conftest")}
    texts = {name: path.read_text("utf-8") for name, path in modules.items()}

    def reached(name, seen):
        if name in texts and name not in seen:
            seen.add(name)
            for match in re.finditer(r"^(?:import|from) (\w+)", texts[name], re.M):
                reached(match[1], seen)
        return seen

    path = pathlib.Path(file)
    word = re.compile(rf"\b{re.escape(path.stem)}" + (r"\b" if path.suffix == ".py" else rf"(?:{re.escape(path.suffix)}\b|[/\"'#])"))
    own = {"test_edits", "test_mutations"}   # they make copies of the tree themselves
    return [f"tests/{name}.py" for name in texts if name.startswith("test_") and name not in own and any(word.search(texts[module]) for module in reached(name, set()))]


def judged(place, edits, checks, browser=False):
    """What is red with these edits, as lines."""
    try:
        with contextlib.ExitStack() as stack:
            for edit in edits:
                stack.enter_context(place.edited(edit.edits))
            output, status = place.run(*([] if browser else ["--quick"]), *checks, seconds=3600)
            red = [] if status == 0 else [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))] or output.splitlines()[-3:]
            wanted = {page for edit in edits for page in edit.marks}
            if wanted:
                output, status = place.run("build")
                red += [f"{page} does not say that its numbers are older than their program" for page in sorted(wanted) if STALE not in (place.top / "site" / page / "index.html").read_text("utf-8")] if status == 0 else [output]
            return red
    except LookupError as error:
        return [f"no longer applies: {error}"]


def alone(place, edit):
    return judged(place, [edit], sorted({*quick(), ROWS, *(check for file, *_ in edit.edits for check in readers(file))}))


def together(place, browser=True):
    return judged(place, EDITS, ["--numprocesses", "3", "--dist", "worksteal", "--ignore", "tests/test_edits.py"] if browser else [*quick(), ROWS], browser)


def run(edits, processes=2, say=print):
    """{name: what is red}"""
    found = {}
    for edit, red in each(edits, lambda place, edit: (edit, alone(place, edit)), processes):
        found[edit.name] = red
        say("\n    ".join([f"{'RED' if red else 'green':6}{edit.name}", *red]), flush=True)
    return found


def main(arguments):
    if arguments == ["--list"]:
        print("\n".join(f"{edit.name}: {', '.join(sorted({file for file, *_ in edit.edits}))}; beside it {', '.join(edit.beside)}" for edit in EDITS))
        return 0
    if (edits := chosen(EDITS, arguments, "edit")) is None:
        return 2
    red = {name: lines for name, lines in run(edits).items() if lines}
    if not arguments and not red:
        with tempfile.TemporaryDirectory(prefix="edits-", ignore_cleanup_errors=True) as folder, Place(pathlib.Path(folder)) as place:
            red = {"all at once": together(place)}
            print("\n    ".join(["the whole suite, all edits at once: " + ("RED" if red["all at once"] else "green"), *red["all at once"]]))
    return 1 if any(red.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
