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


RENDERERS = {"run": (run, ["file"])}
