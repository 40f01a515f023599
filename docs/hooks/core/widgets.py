"""What readers use in the page: `{{ widget.name[option=value] }}` on a line of its own becomes the HTML that docs/theme/js/<name>.js brings to life.

Pure: a renderer is a function (options, numbers) → HTML that teaches without scripts too; `numbers` are the page's (measured.Numbers), with its
place and the book of the build. Add one to RENDERERS.
"""
import html
import json
import re
import types

from . import calculator as shapes
from . import gpu as browsers
from . import online_trace, tex
from . import quiz as quizzes
from . import theatre as stage
from .errors import PageError


def render(name, options, numbers):
    """HTML of the widget. Raises PageError for an unknown name or option, or a missing one."""
    if name not in RENDERERS:
        raise PageError(f"there is no widget '{name}'. Widgets: {', '.join(sorted(RENDERERS))}.")
    renderer, wanted = RENDERERS[name]
    if set(options) != set(wanted):
        form = f"[{', '.join(f'{option}=…' for option in wanted)}]" if wanted else ""
        raise PageError(f"widget.{name} is written {{{{ widget.{name}{form} }}}}.")
    return renderer(options, numbers)


def start(name, numbers, /, **data):
    """The opening tag of a widget that runs Python: docs/theme/js/python.js reads `data-root` and `data-bytes`."""
    attributes = {"widget": name, "root": numbers.place.root, "bytes": numbers.book.python, **data}
    written = "".join(f' data-{key}="{html.escape(str(value), quote=True)}"' for key, value in attributes.items())
    return f'<div class="widget widget-{name}"{written} data-search-exclude>'


def example(name, numbers):
    """Text of an example file. Raises PageError where there is none, or where a browser would change its bytes."""
    if name not in numbers.book.examples:
        raise PageError(f"there is no examples/{name}.")
    text = numbers.book.examples[name]
    if "\r" in text or text.startswith("\n"):
        raise PageError(f"examples/{name} must have LF line ends and no empty first line: a browser would change them. .gitattributes asks git for LF: `git rm --cached -rq . && git reset --hard` checks all files out anew.")
    return text


def run(options, numbers):
    """The file in an editor; without scripts its text stands there to be read."""
    name = options["file"]
    text = example(name, numbers)
    words = numbers.words
    return (
        start("run", numbers, file=name)
        + f'<div class="editor"><textarea readonly spellcheck="false" autocapitalize="off" autocomplete="off" wrap="off" rows="16" aria-label="{words.run.source.format(name=name)}">{html.escape(text)}</textarea></div></div>'
    )


STEPS = [   # what lights up together: the part of the picture, the formula, the beginning of the line of code
    ("init", r"(m, \ell, O) = (-\infty, 0, 0)", "m, l, o = -inf"),
    ("load", r"k_j,\ v_j \quad (j \in T)", "tile = slice"),
    ("scores", r"s_j = q \cdot k_j / \sqrt d", "s = scores(q, K[tile])"),
    ("max", r"m_{\text{new}} = \max\bigl(m,\ \max_{j \in T} s_j\bigr)", "m_new = "),
    ("rescale", r"\alpha = w(m, m_{\text{new}})", "rescale = "),
    ("weights", r"p_j = w(s_j, m_{\text{new}})", "l_tile, o_tile = "),
    ("l", r"\ell_{\text{new}} = \alpha\, \ell + \textstyle\sum_{j \in T} p_j", "l = rescale * l"),
    ("o", r"O_{\text{new}} = \alpha\, O + \textstyle\sum_{j \in T} p_j\, v_j", "o = [rescale * "),
    ("end", r"o = O / \ell", "return normalise(l, o)"),
]
def rounded(data):
    """Every float at 7 decimals: one more than a page shows, and a quarter less on its way than what a machine keeps."""
    if isinstance(data, dict):
        return {name: rounded(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [rounded(value) for value in data]
    return round(data, 7) if isinstance(data, float) else data


def stepper(options, numbers):
    """Online softmax step by step. The values come from running the file; without scripts one walk stands there as a table."""
    name, words = options["file"], numbers.words
    lesson = types.ModuleType("example")
    exec(compile(example(name, numbers), name, "exec"), lesson.__dict__)
    try:
        data = online_trace.example(lesson)
    except AssertionError as error:
        raise PageError(f"examples/{name}: {error}.") from None
    except AttributeError as error:
        raise PageError(f"the stepper runs examples/{name}, where '{error.name}' could not be located.") from None
    rows = []
    for step, formula, code in STEPS:
        line = code_line(name, numbers, code, step)
        rows.append(
            f'<li data-step="{step}">{tex.mark(formula, "docs/hooks/core/widgets.py, STEPS")} '
            f'<code><span class="line">{line[0]}</span>{html.escape(line[1], quote=False)}</code></li>'
        )
    shown = next(walk for walk in data["reversed"]["walks"] if walk["block"] == 2)
    table = "".join(
        f"<tr><td>{n}</td><td>{', '.join(f'{s:.3f}' for s in tile['s'])}</td><td>{tile['m']:.3f}</td><td>{tile['rescale']:.6f}</td><td>{tile['l']:.6f}</td></tr>"
        for n, tile in enumerate(shown["tiles"])
    )
    text = json.dumps(rounded(data), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        start("stepper", numbers, file=name)
        + f'<ol class="steps">{"".join(rows)}</ol>'
        + f'<table class="walk"><caption>{words.stepper.walk}</caption><thead><tr><th>{words.stepper.tile}</th><th>{words.stepper.scores}</th><th>m</th><th>α</th><th>ℓ</th></tr></thead><tbody>{table}</tbody></table>'
        + f'<script type="application/json">{text}</script></div>'
    )


def code_line(name, numbers, beginning, step):
    """(number, text) of the file's one line that begins so; two functions end with the same line, the stream's is the last that returns."""
    lines = [(n, line.strip()) for n, line in enumerate(numbers.book.examples[name].split("\n"), 1) if line.strip().startswith(beginning)]
    if step == "end":
        start_of = next((n for n, line in enumerate(numbers.book.examples[name].split("\n"), 1) if line.startswith("def online_attention")), 0)
        lines = [found for found in lines if found[0] > start_of][:1]
    if len(lines) != 1:
        raise PageError(f"examples/{name} has {len(lines)} lines that begin with '{beginning}': the stepper needs one (docs/hooks/core/widgets.py).")
    number, line = lines[0]
    return number, re.sub(r"\s{2,}#.*", "", line)


def exercise(options, numbers):
    """The skeleton in an editor, checked by its grader; without scripts both files are there to take, and the command."""
    name, words = options["name"], numbers.words
    text = example(f"exercises/{name}_skeleton.py", numbers)
    example(f"exercises/grade_{name}.py", numbers)
    files = words.exercise.files.format(
        skeleton=f'<a href="{numbers.place.root}examples/exercises/{name}_skeleton.py" download="{name}.py">{name}.py</a>',
        grader=f'<a href="{numbers.place.root}examples/exercises/grade_{name}.py" download>grade_{name}.py</a>',
        command=f"<code>python grade_{name}.py {name}.py</code>",
    )
    return (
        start("exercise", numbers, exercise=name)
        + f'<div class="editor"><textarea readonly spellcheck="false" autocapitalize="off" autocomplete="off" wrap="off" rows="16" aria-label="{words.exercise.label.format(name=name)}">{html.escape(text)}</textarea></div>'
        + f'<p class="files">{files}</p></div>'
    )


def progress(options, numbers):
    """How many exercises are solved in this browser."""
    words = numbers.words
    names = sorted(name.removeprefix("exercises/grade_").removesuffix(".py") for name in numbers.book.examples if name.startswith("exercises/grade_"))
    return start("progress", numbers, names=" ".join(names)) + f'<p class="state">{words.progress.without}</p></div>'


def calculator(options, numbers):
    """Any shape on any card. What stands there without scripts is one example, computed by the labs themselves."""
    words, results, card = numbers.words, numbers.book.results, shapes.CARDS[0]
    found = shapes.worked(numbers.book.examples)
    sides = ("naive", "flash")
    rows = [
        (words.calculator.static.bytes, [f"{found['bytes'][side]:,}" for side in sides]),
        (words.calculator.static.largest.format(gib=card["gib"], reserve=shapes.RESERVE), [f"{found['largest'][side]:,}" for side in sides]),
        (words.calculator.static.flops, [f"{found['flops']:,}"] * 2),
        (words.calculator.static.moved, [f"{found['moved'][side]:,}" for side in sides]),
        (words.calculator.static.intensity.format(ridge=f"{found['ridge']:.0f}"), [f"{found['roof'][side]['intensity']:.4g}" for side in sides]),
        (words.calculator.static.ms, [f"{found['roof'][side]['floor_ms']:.3f}" for side in sides]),
        (words.calculator.bound, [{"compute": words.calculator.compute, "memory": words.calculator.bandwidth}[found["roof"][side]["bound"]] for side in sides]),
        (words.calculator.static.cache, [f"{found['cache']:,}"] * 2),
        (words.calculator.static.step, [f"{found['decode']['floor_ms']:.4f}"] * 2),
    ]
    body = "".join(f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>' for name, cells in rows)
    data = {
        "cards": shapes.cards(results, words), "measured": shapes.measured(results),
        "example": shapes.EXAMPLE, "reserve": shapes.RESERVE,
    }
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False).replace("<", "\\u003c")
    command = f"<code>python flash_vs_naive_memory.py --predict --gib {card['gib']}</code>"
    return (
        start("calculator", numbers)
        + f'<div class="static"><table class="worked"><caption>{words.calculator.static.caption.format(card=card["name"], **shapes.EXAMPLE)}</caption><thead><tr><td></td><th scope="col">{words.calculator.naive}</th><th scope="col">{words.calculator.flash}</th></tr></thead><tbody>{body}</tbody></table>'
        + f'<p class="hint">{words.calculator.static.scripts}</p></div><p class="command">{words.calculator.static.command.format(command=command)}</p>'
        + f'<script type="application/json">{text}</script></div>'
    )


def quiz(options, numbers):
    """The questions of docs/quiz/<name>.yml; js/site.js fetches the script when the reader presses the button that `data-ask` words."""
    name, words = options["name"], numbers.words
    return f'<div class="widget widget-quiz" data-widget="quiz" data-quiz="{html.escape(name, quote=True)}" data-ask="{words.quiz.start}" data-search-exclude>{quizzes.render(name, numbers)}</div>'


def gpu(options, numbers):
    """Naive and flash attention on the reader's own GPU; js/site.js fetches the script when the reader presses the button that says what will happen."""
    return browsers.measure(options["form"], numbers.place.root, numbers.words, numbers.book.results, numbers.book.examples)


def wgsl(options, numbers):
    """A kernel of examples/webgpu in an editor, graded on the reader's own GPU."""
    name = options["name"]
    return browsers.editor(name, numbers.place.root, numbers.words, example(f"webgpu/{name}.wgsl", numbers))


def theatre(options, numbers):
    """Naive and flash side by side: which tiles cross the line to HBM, and when. Without scripts one moment of it stands there."""
    form = options["form"]
    if form not in ("home", "lesson"):
        raise PageError(f"the theatre has the forms home and lesson, not '{form}'.")
    return stage.render(form, '<section class="widget widget-theatre" data-widget="theatre" data-late data-search-exclude>', numbers)


RENDERERS = {"theatre": (theatre, ["form"]), "gpu": (gpu, ["form"]), "wgsl": (wgsl, ["name"]), "run": (run, ["file"]), "stepper": (stepper, ["file"]), "exercise": (exercise, ["name"]), "progress": (progress, []), "calculator": (calculator, []), "quiz": (quiz, ["name"])}
