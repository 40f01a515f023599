"""Evidence tables: statements about another project's source, each with the place where it was found in two releases."""
import html
import json
import re

from .errors import PageError



def load(path):
    """The evidence that a file holds. Raises PageError for what is no JSON."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise PageError(f"docs/evidence/{path.name}: not JSON: {error}. Write it again with `make verify-vllm`.") from None


def table(evidence, name, filters, lang, root, words):
    """A Markdown table of the statements that the filter selects, and the line that says what was checked and when."""
    pinned, newest = evidence["versions"]["0.26.0"], evidence["versions"]["newest"]
    known = {key for statement in evidence["statements"] for key in statement if isinstance(statement[key], str)}
    for key in filters:
        if key not in known:
            raise PageError(f"evidence {name} has no field '{key}'. Fields: {', '.join(sorted(known))}.")
    chosen = [s for s in evidence["statements"] if all(str(s.get(key)) == str(value) for key, value in filters.items())]
    if not chosen:
        raise PageError(f"no statement of {name} is selected by {filters}.")
    for version in (pinned["version"], newest["version"], evidence["checked"]):
        if not re.fullmatch(r"[0-9][0-9A-Za-z.+-]*", version):
            raise TypeError(f"{version!r} is no version and no day")
    lines = [f"| {words.evidence.statement} | {pinned['version']} | {newest['version']} |", "|---|---|---|"]
    for statement in chosen:
        now = statement["newest"]
        status = {"same": words.evidence.same, "moved": words.evidence.moved, "changed": words.evidence.changed, "gone": words.evidence.gone}[now["status"]]
        place = "" if now["status"] == "same" else " " + _place(now, words)
        change = f" {now[lang]}" if now["status"] == "changed" and now.get(lang) else ""
        lines.append(f"| {_cell(statement[lang])} | {_place(statement['0.26.0'], words)} | {status}{place}{_cell(change)} |")
    tail = (
        f'<p class="provenance" data-search-exclude>{words.evidence.checked.format(name=name, pinned=pinned["version"], newest=newest["version"], day=evidence["checked"])} · '
        f'<a href="{root}evidence/{name}.json">JSON</a></p>'
    )
    return "\n".join(lines) + f"\n\n{tail}\n"


def _place(found, words):
    if not found.get("file"):
        return words.evidence.gone
    path = re.sub(r"^vllm/(?=.)", "", found["file"])
    if not re.fullmatch(r"[A-Za-z0-9_./-]+", path):
        raise TypeError(f"{path!r} is no path")
    line = f"<wbr><span>:{int(found['line'])}</span>" if found.get("line") else ""   # a line number is not broken
    return f"<code class=\"place\">{html.escape(path).replace('/', '/<wbr>').replace('_', '_<wbr>')}{line}</code>"


def _cell(text):
    if re.search(r"<\s*[A-Za-z/!?]|[\n{]|\]\(", re.sub(r"`[^`\n]*`", "", text)):
        raise TypeError(f"a statement is words and code, and no HTML, link or attribute: {text[:60]!r}")
    return text.replace("|", r"\|")
