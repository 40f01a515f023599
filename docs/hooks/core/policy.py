"""The content-security policy in a built page: what it may load and run, as a <meta> before anything that loads.

Of inline scripts only the theme's own run, each allowed by its hash. A page's content and our templates have none: `refuse` says so at build,
where the browser would say nothing but in its console. A Worker from an address of its own takes its policy from the server, not from this
<meta>, so Python's WebAssembly needs no allowance here. A server that sends a policy as a header must allow it there: script-src 'wasm-unsafe-eval'.
"""
import base64
import hashlib
import html
import re

from .errors import PageError

ATTRIBUTES = r"""(?:[^>"']|"[^"]*"|'[^']*')*+"""
TAG = re.compile(rf"<!--.*?-->|<([a-z][a-z0-9-]*)\b({ATTRIBUTES})>", re.S | re.I)
DATA = re.compile(r"""(?<![\w-])type\s*=\s*["']?[\w/+.-]*json["'\s]""", re.I)   # never run: the widgets' data, the theme's settings
CHARSET = re.compile(r"""<meta charset=["']?[\w-]+["']?\s*/?>""", re.I)
REFUSED = {"iframe", "frame", "object", "embed", "audio", "video", "base"}


def put(page):
    """The page with its policy behind `<meta charset>`. Raises PageError where that does not stand before everything that loads."""
    charset, loads = CHARSET.search(page), re.search(r"<(?:script|style|link|body)\b", page, re.I)
    if not charset or loads and loads.start() < charset.start():
        raise PageError("the page has no <meta charset> before its first script or style: its content-security policy goes there (docs/hooks/core/policy.py).")
    meta = f'\n<meta http-equiv="Content-Security-Policy" content="{html.escape(policy(page), quote=False)}">'
    return page[: charset.end()] + meta + page[charset.end():]


def policy(page):
    """The policy of a page's HTML.

    Formulas and some charts carry `style` attributes, which no hash can name one by one: attributes are allowed (style-src), elements by hash
    (style-src-elem). Icons in the theme's styles are data: addresses.
    """
    found = {"script": [], "style": []}
    for kind, _, text in inline(page):
        digest = hashlib.sha256(text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8")).digest()
        found[kind].append(f"'sha256-{base64.b64encode(digest).decode()}'")
    scripts, styles = (" ".join(["'self'", *dict.fromkeys(found[kind])]) for kind in ("script", "style"))
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self' 'unsafe-inline'; style-src-elem {styles}; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; worker-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'"
    )


def refuse(content, source=""):
    """Raise PageError for what the policy keeps from running or loading in a page's content, or in a template of ours, with its line in `source`."""
    for name, tag, attributes, text in _tags(content):
        if name == "script" and text.strip() and not DATA.search(attributes + " "):
            _refused("a script written into the page", text.strip(), source, "put it in a file of docs/theme/js; data is <script type=\"application/json\">")
        if "=" in attributes and (handler := re.search(r"\s(on[a-z]+)\s*=", re.sub(r""""[^"]*"|'[^']*'""", '""', attributes), re.I)):
            _refused(f"the attribute {handler[1]}", tag, source, "listen with addEventListener in a file of docs/theme/js")
        if "javascript" in attributes.lower() and re.search(r"""=\s*["']?\s*javascript:""", attributes, re.I):
            _refused("a javascript: address", tag, source, "listen with addEventListener in a file of docs/theme/js")
        if name in REFUSED or name == "script" and re.search(r"""\bsrc\s*=\s*["']?\s*(?:[a-z]+:|//)""", attributes, re.I):
            _refused(f"<{name}>", tag, source, "nothing of that kind is loaded; allow it in docs/hooks/core/policy.py if the site itself serves it")


def inline(page):
    """(kind, attributes, text) of each script and style that is written into the page and is not data."""
    return [(name, attributes, text) for name, _, attributes, text in _tags(page)
            if name in ("script", "style") and text.strip() and not (name == "script" and DATA.search(attributes + " "))]


def _tags(page):
    """(name, tag, attributes, text) of each opening tag; the text of those whose text is no HTML."""
    position = 0
    while tag := TAG.search(page, position):
        position = tag.end()
        name, text = (tag[1] or "").lower(), ""
        if name in ("script", "style", "textarea"):
            end = re.compile(rf"</{name}\s*>", re.I).search(page, position)
            text = page[position : end.start() if end else len(page)]
            position += len(text)
        if name:
            yield name, tag[0], tag[2], text


def _refused(what, text, source, mend):
    line = next((n for n, written in enumerate(source.splitlines(), 1) if text.splitlines()[0] in written), None)
    raise PageError(f"{what} is refused by the content-security policy: '{' '.join(text.split())[:80]}'. Mend: {mend}.", line)
