"""One measured number: what a placeholder names, the result that has it, how it is written, where it comes from.

Whatever shows measured numbers on a page, in tables, in prose or in a widget, takes them from the page's one `Numbers`.
"""
import re

from .errors import PageError
from .words import label

CANDIDATE = re.compile(r"\{\{\s*([A-Za-z_][\w-]*(?:@[\w-]+)?\.[^{}]*?)\s*\}\}")
CALL = re.compile(
    r"(?P<lab>[A-Za-z_]\w*)(?:@(?P<gpu>[\w-]+))?\.(?P<name>[A-Za-z_][\w-]*)"
    r"(?:\[(?P<filter>[^\]]*)\])?(?:\s*:\s*(?P<columns>[^|]*?))?(?:\s*\|\s*(?P<format>[^|]+))?"
)
UNITS = {"mib": "MiB", "gib": "GiB", "gb": "GB", "bytes": "bytes", "ms": "ms", "us": "µs", "tflops": "TFLOP/s", "gbps": "GB/s", "pct": "%"}
VERBATIM = ("kernel", "reason", "error", "setmaxnreg")   # columns that quote other programs
SHOWN_BYTES = {"bytes": ("bytes", "byte", "B", "字节")}


class Numbers:
    """The measured numbers of one page.

    book   what the build knows (book.Book)
    place  which page it is (book.Place)
    used   the results that were shown so far
    """

    def __init__(self, book, place):
        self.book, self.place, self.used = book, place, []
        self.words = book.words[place.lang]

    def fill(self, text, fenced=False):
        """The text with each value that a placeholder in it names."""
        return CANDIDATE.sub(lambda match: self._value(match, fenced), text)

    def result(self, call):
        gpu = call["gpu"] or self.place.gpu
        try:
            result = self.book.results[gpu, call["lab"]]
        except KeyError:
            names = ", ".join(sorted(f"{lab}@{g}" for g, lab in self.book.results)) or "none"
            raise PageError(f"no result '{call['lab']}' of '{gpu}'. Known: {names}. Measure it with `make labs LAB={call['lab']}`.") from None
        if result not in self.used:
            self.used.append(result)
        return result

    def select(self, call, result):
        rows, filters = result["rows"], filters_of(call["filter"])
        columns = {name for row in rows for name in row}
        for name in filters:
            if name not in columns:
                raise PageError(f"{call['lab']} has no column '{name}'. Columns: {', '.join(sorted(columns))}.")
        return [row for row in rows if all(row.get(name) == value for name, value in filters.items())]

    def _value(self, match, fenced):
        call = parse(match[1])
        if call["lab"] == "site" and call["name"] == "url":
            return self.place.site
        if call["lab"] in ("difference", "drawing", "evidence", "widget") or call["name"] in ("rows", "chart", "roofline", "output", "provenance") or call["columns"]:
            raise PageError(f"'{{{{ {match[1]} }}}}' must stand on a line by itself.")
        result, name = self.result(call), call["name"]
        if call["filter"] is None:
            if name not in result["values"]:
                raise PageError(f"{call['lab']} has no value '{name}'. Values: {', '.join(sorted(result['values']))}; a column needs a filter [S=…].")
            value = result["values"][name]
        else:
            rows = self.select(call, result)
            if len(rows) != 1:
                raise PageError(f"'{{{{ {match[1]} }}}}' selects {len(rows)} rows, and must select one. Add to or correct the filter.")
            known(call, name, rows)
            value = rows[0][name]
            if value is None and rows[0]["status"] != "ok":
                return plain(label(self.words, rows[0]["status"]) or rows[0]["status"])
        _unit_behind(name, match.string[match.end():])
        text = written(name, self.said(name, value) if isinstance(value, str) and not name.endswith(VERBATIM) else value, call["format"])
        if fenced:
            return inside_fence(call, text, r"[\x00-\x1f]")
        raw = plain("" if value is None else value)
        machine = plain(f"{result['machine']['gpu']}, torch {result['software']['torch']}, {result['run']['started'][:10]}")
        mark = f'<sup class="stale" title="{self.words.provenance.stale}">!</sup>' if result["stale"] else ""
        return f'<data class="measured" value="{raw}" title="{machine}">{cell(name, text, value)}</data>{mark}'

    def said(self, name, value):
        """A result's word in the page's language, in which programs speak English."""
        said = label(self.words, value) or (value if self.place.lang == "en" else None)
        if said is None:
            raise PageError(f"the page shows '{value}' in column '{name}': say it under results: in docs/words, in every language.")
        return said

    def provenance(self, result):
        """One line that says where the numbers come from, with a link to their JSON."""
        machine, software, source = result["machine"], result["software"], result["source"]
        words = self.words
        parts = [f"torch {software['torch']}"]
        if machine.get("driver"):
            parts.append(f"{words.provenance.driver.text} {machine['driver']}")
        parts.append(result["run"]["started"][:10])
        held = f"{words.provenance.commit.text} {source['commit'][:9]}" if source.get("commit") else words.provenance.uncommitted.text
        parts.append(held + (words.provenance.dirty.text if source["dirty"] else ""))
        badge = f'<strong class="gpu">{plain(machine["gpu"])}</strong>'
        text = " · ".join(map(plain, parts))
        link = f'<a href="{self.place.root}{result["url"]}">JSON</a>'
        stale = f' <strong class="stale">{words.provenance.stale}</strong>' if result["stale"] else ""
        card = result["run"].get("card") or {"idle": True}
        busy = "" if card["idle"] else f' <strong class="stale">{words.provenance.busy.format(mib=round(card["others_mib"]), spread=round(card["spread_pct"] or 0))}</strong>'
        return f'<p class="provenance" data-search-exclude>{words.provenance.measured}{badge} · {text} · {link}{stale}{busy}</p>'


def parse(text):
    call = CALL.fullmatch(text)
    if call is None:
        raise PageError(f"cannot read the placeholder '{{{{ {text} }}}}'. Forms: lab.column[S=4096], lab.value, lab.rows[…]: columns, lab.chart[…]: x=\"…\" y=\"…\".")
    return call.groupdict()


def plain(value):
    """What a result says, as text in a page: nothing in it is HTML, Markdown or a formula, and it stays on its line."""
    return re.sub(r"""[&<>"`*_\[\]{}$\\]""", lambda m: f"&#{ord(m[0])};" if m[0] not in ENTITIES else ENTITIES[m[0]], re.sub(r"[\x00-\x1f\x7f]", " ", str(value)))


ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def inside_fence(call, text, forbidden):
    """Code is shown as it is, so it must not hold what ends its fence or asks for another file."""
    if found := re.search(rf"^\s*(`{{3}}|~{{3}})|-8<-|{forbidden}", text, re.M):
        raise PageError(f"{call['lab']}.{call['name']} holds {found[0]!r}, which cannot stand inside a fence. Print something else and measure again.")
    return text


def filters_of(text):
    filters = {}
    for part in filter(None, (p.strip() for p in (text or "").split(","))):
        name, equals, value = (s.strip() for s in part.partition("="))
        if not equals or not name or not value:
            raise PageError(f"cannot read the filter '{part}'; write [S=4096, causal=false].")
        filters[name] = _literal(value)
    return filters


def _literal(text):
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text.strip("'\"")


def known(call, name, rows):
    for row in rows:
        if name in row:
            continue
        stem = name.rsplit("_", 1)[0]
        near = sorted(column for column in row if column.rsplit("_", 1)[0] == stem)
        hint = f" It has {', '.join(near)}: mind the unit." if near else f" Columns: {', '.join(sorted(row))}."
        raise PageError(f"{call['lab']} has no column '{name}' in the rows selected.{hint}")


def unit_of(name):
    return UNITS.get(name.rsplit("_", 1)[-1]) if "_" in name else None


def _unit_behind(name, rest):
    unit = unit_of(name)
    follows = re.match(r"(?:\s|&nbsp;|\*)*(MiB|GiB|KiB|MB|GB/s|GB|kB|TB/s|TFLOP/s|GFLOP/s|ms|µs|us|s\b|%|bytes?|字节|B\b)", rest)
    if unit and follows and follows[1] not in SHOWN_BYTES.get(name.rsplit("_", 1)[-1], (unit,)):
        raise PageError(f"'{name}' is in {unit}, but '{follows[1]}' is written behind it.")


def written(name, value, spec):
    if value is None:
        return "–"
    if spec:
        try:
            return format(value, spec.strip())
        except (ValueError, TypeError, OverflowError):
            raise PageError(f"the format '{spec.strip()}' does not fit {name} = {str(value)[:100]!r}.") from None
    if isinstance(value, bool) or isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}" if unit_of(name) else str(value)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.2e}"


def cell(name, text, value):
    if name.endswith("kernel"):
        return f'<code title="{plain(value)}">{_breakable(short_kernel(text))}</code>'
    return plain(text)


def short_kernel(name):
    """The readable part of a kernel's name: no return type, no namespaces, no template arguments."""
    name = re.sub(r"^(void|static)\s+", "", name.strip()).replace("(anonymous namespace)::", "")
    name = re.split(r"[<(]", name, maxsplit=1)[0]
    return name.rsplit("::", 1)[-1] or name


def _breakable(name):
    return re.sub(r"(?<=\w)&#95;(?=\w)", "_<wbr>", plain(name))
