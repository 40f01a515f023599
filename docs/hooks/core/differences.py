"""What a program adds to the one before it: their difference by lines, made at build and folded."""
import difflib
import html

MARKS = {"+": "ins", "-": "del"}


def difference(before, after, name, words):
    """<details> with the difference of two texts; name: what the reader knows the first by."""
    lines = [line for line in difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="")][2:]
    said = words.kernel.difference.format(name=html.escape(name), added=_count(lines, "+"), removed=_count(lines, "-"))
    return f'<details class="difference" data-search-exclude><summary>{said}</summary><pre tabindex="0"><code>{"".join(map(_line, lines))}</code></pre></details>'


def _count(lines, mark):
    return sum(line.startswith(mark) for line in lines)


def _line(line):
    if line.startswith("@@"):
        return "⋯\n"
    text = html.escape(line, quote=False)
    tag = MARKS.get(line[:1])
    return f"<{tag}>{text}</{tag}>\n" if tag else f"{text}\n"
