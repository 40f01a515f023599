"""What readers use in the page: `{{ widget.name[option=value] }}` on a line of its own becomes the HTML that docs/theme/js/<name>.js brings to life.

Pure: a renderer is a function (options, context) → HTML that teaches without scripts too. Add one to RENDERERS.
"""
import html
from dataclasses import dataclass, field

from .errors import PageError


@dataclass
class Context:
    """What a renderer may use.

    lang      "en" or "zh"
    root      relative address of the site's root from this page, e.g. "../../"
    examples  {name: text} of the served example files
    python    bytes that the first run of Python fetches, as they lie on disk
    tex       function (list of (tex, display)) → list of {"html": …} or {"error": …}
    extra     whatever a single widget needs more
    """

    lang: str
    root: str
    examples: dict
    python: int = 0
    tex: object = None
    extra: dict = field(default_factory=dict)


def render(name, options, context):
    """HTML of the widget. Raises PageError for an unknown name or option, or a missing one."""
    if name not in RENDERERS:
        raise PageError(f"there is no widget '{name}'. Widgets: {', '.join(sorted(RENDERERS))}.")
    renderer, wanted = RENDERERS[name]
    if set(options) != set(wanted):
        form = f"[{', '.join(f'{option}=…' for option in wanted)}]" if wanted else ""
        raise PageError(f"widget.{name} is written {{{{ widget.{name}{form} }}}}.")
    return renderer(options, context)


def start(name, context, **data):
    """The opening tag of a widget that runs Python: docs/theme/js/python.js reads `data-root` and `data-bytes`."""
    attributes = {"widget": name, "root": context.root, "bytes": context.python, **data}
    written = "".join(f' data-{key}="{html.escape(str(value), quote=True)}"' for key, value in attributes.items())
    return f'<div class="widget widget-{name}"{written} data-search-exclude>'


def example(name, context):
    """Text of an example file. Raises PageError where there is none, or where a browser would change its bytes."""
    if name not in context.examples:
        raise PageError(f"there is no examples/{name}.")
    text = context.examples[name]
    if "\r" in text or text.startswith("\n"):
        raise PageError(f"examples/{name} must have LF line ends and no empty first line: a browser would change them.")
    return text


def run(options, context):
    """The file in an editor; without scripts its text stands there to be read."""
    name = options["file"]
    text = example(name, context)
    label = {"en": f"Source of {name}", "zh": f"{name} 的源代码"}[context.lang]
    return (
        start("run", context, file=name)
        + f'<div class="editor"><textarea readonly spellcheck="false" autocapitalize="off" autocomplete="off" wrap="off" rows="16" aria-label="{label}">{html.escape(text)}</textarea></div></div>'
    )


EXERCISE = {
    "en": {"label": "Your solution of {}", "files": "On your own machine: {skeleton} (the skeleton) and {grader} (the grader), then {command}.", "progress": "Solutions are checked and kept in the browser, with scripts switched on; without them, the graders run on your own machine."},
    "zh": {"label": "{} 的解答", "files": "在自己的机器上做：下载 {skeleton}（骨架）和 {grader}（评分程序），然后运行 {command}。", "progress": "开启脚本后，解答在浏览器里检查和保存；没有脚本时，可在自己的机器上运行评分程序。"},
}


def exercise(options, context):
    """The skeleton in an editor, checked by its grader; without scripts both files are there to take, and the command."""
    name, words = options["name"], EXERCISE[context.lang]
    text = example(f"exercises/{name}_skeleton.py", context)
    example(f"exercises/grade_{name}.py", context)
    files = words["files"].format(
        skeleton=f'<a href="{context.root}examples/exercises/{name}_skeleton.py" download="{name}.py">{name}.py</a>',
        grader=f'<a href="{context.root}examples/exercises/grade_{name}.py" download>grade_{name}.py</a>',
        command=f"<code>python grade_{name}.py {name}.py</code>",
    )
    return (
        start("exercise", context, exercise=name)
        + f'<div class="editor"><textarea readonly spellcheck="false" autocapitalize="off" autocomplete="off" wrap="off" rows="16" aria-label="{words["label"].format(name)}">{html.escape(text)}</textarea></div>'
        + f'<p class="files">{files}</p></div>'
    )


def progress(options, context):
    """How many exercises are solved in this browser."""
    names = sorted(name.removeprefix("exercises/grade_").removesuffix(".py") for name in context.examples if name.startswith("exercises/grade_"))
    return start("progress", context, names=" ".join(names)) + f'<p class="state">{EXERCISE[context.lang]["progress"]}</p></div>'


RENDERERS = {"run": (run, ["file"]), "exercise": (exercise, ["name"]), "progress": (progress, [])}
