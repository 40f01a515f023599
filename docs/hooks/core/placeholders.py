"""Placeholders of measured numbers: `{{ lab.name[filter] | format }}`, rows, charts, outputs, drawings.

Pure text to text. A page writes

    {{ lab.column[S=4096, kv_heads=28] }}          one cell of the one row that the filter selects
    {{ lab.name }}                                 one of the result's values
    {{ lab@other-gpu.column[…] | .2f }}            another card; a Python format specification
    {{ lab.rows[filter] }}                         table rows, on a line under a header written by the author, each cell of which is or ends in its column: | S | naive, MiB {naive_mib} |
    {{ lab.rows[filter]: S naive_mib ratio }}      the same, the columns named here
    {{ lab.chart[filter]: S="label" naive_mib="label" }}   a chart, on a line of its own
    {{ lab.roofline[filter]: naive="label" flash="label" }}   points of each impl under the measured ceilings
    {{ lab.output }}                               what the lab printed, inside a fence
    {{ lab.provenance }}                           the line that says where the numbers come from, on a line of its own
    {{ evidence.vllm[topic=choose] }}              statements checked in another project's source, as a table, on a line of its own
    {{ drawing.name }}                             an SVG of docs/theme/drawings, on a line of its own
    {{ widget.name[option=value] }}                what readers use in the page (widgets.py), on a line of its own
    {{ site.url }}                                 where the site is published
"""
import re

from . import evidence, widgets
from .errors import PageError

CANDIDATE = re.compile(r"\{\{\s*([A-Za-z_][\w-]*(?:@[\w-]+)?\.[^{}]*?)\s*\}\}")
# What a writer meant as a placeholder and CANDIDATE does not see: it would stand in the page as it is written.
MEANT = re.compile(r"(?<![$\\{])\{\{\s*([^{}\\$\s]*[./@][^{}\\$]*?)\s*\}\}(?!\})")
CALL = re.compile(
    r"(?P<lab>[A-Za-z_]\w*)(?:@(?P<gpu>[\w-]+))?\.(?P<name>[A-Za-z_][\w-]*)"
    r"(?:\[(?P<filter>[^\]]*)\])?(?:\s*:\s*(?P<columns>[^|]*?))?(?:\s*\|\s*(?P<format>[^|]+))?"
)
COLUMN = re.compile(r"(?a)^([A-Za-z_]\w*)$|\s*\{([A-Za-z_]\w*)\}$")   # a header's cell is the name of its column, or ends in it
PROGRAMS = ("naive", "flash", "cudnn")
UNITS = {"mib": "MiB", "gib": "GiB", "gb": "GB", "bytes": "bytes", "ms": "ms", "us": "µs", "tflops": "TFLOP/s", "gbps": "GB/s", "pct": "%"}
SHOWN_BYTES = {"bytes": ("bytes", "byte", "B", "字节")}
WORDS = {
    "en": {
        "ok": "ok", "oom": "out of memory", True: "yes", False: "no",
        "measured": "Measured on", "commit": "commit", "dirty": "with uncommitted changes", "json": "JSON", "driver": "driver",
        "stale": "measured before the last change of this program",
    },
    "zh": {
        "ok": "正常", "oom": "显存不足", True: "是", False: "否",
        "measured": "实测：", "commit": "提交", "dirty": "含未提交的改动", "json": "JSON", "driver": "驱动",
        "stale": "程序在测量之后改动过",
    },
}
# What a result says in a word, in the words of a page that is not English; names of programs, backends and kernels stay.
SAID = {
    "en": {},
    "zh": {
        "before": "之前", "after": "之后", "copy": "拷贝", "matmul": "矩阵乘", "textbook": "教科书写法",
        "scores": "分数", "scale": "缩放", "mask": "掩码", "output": "输出", "p": "概率", "scores and p": "分数和概率", "nothing": "无",
        "zeros": "全零", "unmasked softmax": "不加掩码的 softmax", "both applied": "两个都用上", "refused": "拒绝", "error": "报错",
        "all keys": "全部 key", "key 0": "只有 key 0",
        "tiles of 64": "分块宽 64", "tiles of 128": "分块宽 128", "fp32 tiles of 64": "fp32，分块宽 64", "fp32 tiles of 128": "fp32，分块宽 128",
    },
}


class Page:
    """Expands the placeholders of one page.

    results  {(gpu, lab): result} as results.load gives it
    gpu      the card that is meant where a placeholder names none
    lang     "en" or "zh"
    root     relative address of the site's root from this page, e.g. "../../"
    site     address where the site is published, "" while unknown
    charts   has line(rows, labels, unit) and roofline(rows, labels, values), which return SVG text
    drawing  function (name) → SVG text; raises KeyError for an unknown name
    evidence {name: evidence} as docs/evidence/<name>.json holds it
    context  widgets.Context of this page
    """

    def __init__(self, results, gpu, lang, root, site, charts, drawing, evidence=None, context=None):
        self.results, self.gpu, self.lang, self.root, self.site = results, gpu, lang, root, site
        self.charts, self.drawing, self.evidence, self.context = charts, drawing, evidence or {}, context
        self.words, self.said = WORDS[lang], SAID[lang]
        self.figures, self.used = [], []
        if context is not None:
            context.measured = lambda text: CANDIDATE.sub(lambda m: self._value(m, False), text)

    def expand(self, markdown, first_line=1):
        """Return the Markdown with every placeholder replaced; figures wait in `self.figures` for `place_figures`."""
        lines, out, fence = markdown.split("\n"), [], None
        for i, line in enumerate(lines):
            if mark := re.match(r"\s*(`{3,}|~{3,})", line):
                fence = mark[1] if fence is None else None if line.strip().startswith(fence) and not line.strip().strip(fence[0]) else fence
            try:
                out.append(self._line(lines, i, fence is not None, out))
            except PageError as error:
                error.line = error.line or first_line + i
                raise
        return "\n".join(out)

    def place_figures(self, content):
        """Put the charts and drawings where `expand` left their marks in the rendered page."""
        for i, figure in enumerate(self.figures):
            content = content.replace(f'<figure data-figure="{i}"></figure>', figure)
        return content

    def _line(self, lines, i, fenced, out):
        line = lines[i]
        whole = CANDIDATE.fullmatch(line.strip())
        if whole:
            call = self._parse(whole[1])
            if call["lab"] == "drawing":
                return self._figure("drawing", self._drawing(call["name"]))
            if call["lab"] == "widget":
                return self._place(widgets.render(call["name"], _filters(call["filter"]), self.context))
            if call["lab"] == "evidence":
                if call["name"] not in self.evidence:
                    raise PageError(f"there is no docs/evidence/{call['name']}.json.")
                try:
                    return evidence.table(self.evidence[call["name"]], call["name"], _filters(call["filter"]), self.lang, self.root)
                except (LookupError, TypeError, AttributeError) as error:
                    raise PageError(f"docs/evidence/{call['name']}.json is not whole: {type(error).__name__}: {str(error)[:100]}. Write it again with `make verify-vllm`.") from None
            if call["name"] == "rows":
                return self._rows(call, lines, i, out)
            if call["name"] in ("chart", "roofline"):
                return self._chart(call)
            if call["name"] == "output":
                return self._output(call, fenced)
            if call["name"] == "provenance":
                return self.provenance(self._result(call))
        if stray := MEANT.search(CANDIDATE.sub("", line)):
            self._parse(stray[1])
        return CANDIDATE.sub(lambda m: self._value(m, fenced), line)

    def _parse(self, text):
        call = CALL.fullmatch(text)
        if call is None:
            raise PageError(f"cannot read the placeholder '{{{{ {text} }}}}'. Forms: lab.column[S=4096], lab.value, lab.rows[…]: columns, lab.chart[…]: x=\"…\" y=\"…\".")
        return call.groupdict()

    def _result(self, call):
        gpu = call["gpu"] or self.gpu
        try:
            result = self.results[gpu, call["lab"]]
        except KeyError:
            known = ", ".join(sorted(f"{lab}@{g}" for g, lab in self.results)) or "none"
            raise PageError(f"no result '{call['lab']}' of '{gpu}'. Known: {known}. Measure it with `make labs LAB={call['lab']}`.") from None
        if result not in self.used:
            self.used.append(result)
        return result

    def _select(self, call, result):
        rows, filters = result["rows"], _filters(call["filter"])
        columns = {name for row in rows for name in row}
        for name in filters:
            if name not in columns:
                raise PageError(f"{call['lab']} has no column '{name}'. Columns: {', '.join(sorted(columns))}.")
        return [row for row in rows if all(row.get(name) == value for name, value in filters.items())]

    def _value(self, match, fenced):
        call = self._parse(match[1])
        if call["lab"] == "site" and call["name"] == "url":
            return self.site
        if call["lab"] in ("drawing", "evidence", "widget") or call["name"] in ("rows", "chart", "roofline", "output", "provenance") or call["columns"]:
            raise PageError(f"'{{{{ {match[1]} }}}}' must stand on a line by itself.")
        result, name = self._result(call), call["name"]
        if call["filter"] is None:
            if name not in result["values"]:
                raise PageError(f"{call['lab']} has no value '{name}'. Values: {', '.join(sorted(result['values']))}; a column needs a filter [S=…].")
            value = result["values"][name]
        else:
            rows = self._select(call, result)
            if len(rows) != 1:
                raise PageError(f"'{{{{ {match[1]} }}}}' selects {len(rows)} rows, and must select one. Add to or correct the filter.")
            _known(call, name, rows)
            value = rows[0][name]
            if value is None and rows[0]["status"] != "ok":
                return self.words.get(rows[0]["status"], rows[0]["status"])
        _unit_behind(name, match.string[match.end():])
        text = _format(name, value, call["format"])
        if fenced:
            return _inside_fence(call, text, r"[\x00-\x1f]")
        raw = plain("" if value is None else value)
        machine = plain(f"{result['machine']['gpu']}, torch {result['software']['torch']}, {result['run']['started'][:10]}")
        mark = f'<sup class="stale" title="{self.words["stale"]}">!</sup>' if result["stale"] else ""
        return f'<data class="measured" value="{raw}" title="{machine}">{_cell(name, text, value)}</data>{mark}'

    def _rows(self, call, lines, i, out):
        """The rows, and below them their provenance; where other cards have this result too, a tab for each card."""
        result = self._result(call)
        columns = (call["columns"] or "").split()
        header, rule = (lines[i - 2], lines[i - 1]) if i >= 2 else ("", "")
        if not re.fullmatch(r"\s*\|?(\s*:?-+:?\s*\|)+\s*(:?-+:?\s*)?", rule):
            raise PageError("table rows must follow a header line and its |---| line.")
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", header.strip().strip("|"))]
        tied = [COLUMN.search(cell) for cell in cells]
        if not columns and not all(tied):
            raise PageError(f"end each cell of the header in the column that stands under it, as in | naive, MiB {{naive_mib}} |; missing in '{cells[tied.index(None)]}'.")
        if not columns:
            columns, cells = [match[1] or match[2] for match in tied], [match[1] or match.string[:match.start()] for match in tied]
            header = out[-2] = "| " + " | ".join(cells) + " |"
        if len(cells) != len(columns):
            raise PageError(f"the header has {len(cells)} cells, the placeholder names {len(columns)} columns.")
        if i + 1 < len(lines) and lines[i + 1].strip():
            raise PageError("an empty line must follow the rows of a table: its provenance line is put there.")
        table = self._table(call, result, cells, columns)
        others = [] if call["gpu"] else [key for key in self.results if key[1] == call["lab"] and key[0] != self.gpu]
        if not others:
            return table
        del out[-2:]
        tabs = []
        for key in [(self.gpu, call["lab"]), *others]:
            other = self._result({**call, "gpu": key[0]})
            body = f"{header}\n{rule}\n{self._table(call, other, cells, columns)}"
            tabs.append(f'=== "{plain(other["machine"]["gpu"])}"\n\n' + "\n".join("    " + line if line else "" for line in body.split("\n")))
        return "\n".join(tabs)

    def _table(self, call, result, cells, columns):
        rows = self._select(call, result)
        if not rows:
            raise PageError(f"the filter [{call['filter']}] of {call['lab']}.rows selects no row.")
        for cell, name in zip(cells, columns):
            _known(call, name, rows)
            _unit_in_header(cell, name)
            _program_in_header(cell, name)
        specs = {name: _column_format([row.get(name) for row in rows]) for name in columns}
        body = ["| " + " | ".join(self._row_cell(name, row, specs[name]) for name in columns) + " |" for row in rows]
        return "\n".join(body) + "\n\n" + self.provenance(result) + "\n"

    def _row_cell(self, name, row, spec):
        value = row.get(name)
        if value is None:
            return "–" if row["status"] == "ok" or name not in row else self.words.get(row["status"], row["status"])
        if name == "status" or isinstance(value, bool):
            value = self.words.get(value, value)
        elif isinstance(value, str):
            value = self.said.get(value, value)
        return _cell(name, _format(name, value, spec if isinstance(value, float) else None), value).replace("|", "&#124;")

    def _chart(self, call):
        result = self._result(call)
        rows = self._select(call, result)
        labels = dict(re.findall(r'([A-Za-z_]\w*)="([^"]*)"', call["columns"] or ""))
        left = re.sub(r'[A-Za-z_]\w*="[^"]*"', "", call["columns"] or "").strip()
        if left or len(labels) < (1 if call["name"] == "roofline" else 2):
            raise PageError('a chart names its axis and its curves with labels: {{ lab.chart[…]: S="…" naive_mib="…" }}.')
        for name, label in labels.items():
            _program_in_header(label, name)
        if call["name"] == "roofline":
            if missing := set(labels) - {row.get("impl") for row in rows}:
                raise PageError(f"no row of {call['lab']} has impl {', '.join(sorted(missing))}.")
            drawn = [row for row in rows if row.get("impl") in labels and row.get("tflops")]
            for name in ("S", "intensity", "tflops"):
                _drawable(call, name, drawn)
            svg = self._drawn(call, self.charts.roofline, rows, labels, result["values"])
        else:
            for n, name in enumerate(labels):
                _known(call, name, rows)
                _drawable(call, name, rows, gaps=n > 0)
            units = {_unit(name) for name in list(labels)[1:]}
            if len(units) != 1:
                raise PageError(f"the curves of one chart share one unit, not {', '.join(sorted(map(str, units)))}.")
            svg = self._drawn(call, self.charts.line, rows, labels, units.pop() or "")
        return self._figure("chart", svg + self.provenance(result))

    def _output(self, call, fenced):
        if not fenced:
            raise PageError(f"{{{{ {call['lab']}.output }}}} belongs inside a ```{{.text .no-copy}} fence.")
        return _inside_fence(call, self._result(call)["output"].rstrip("\n"), r"[\x00-\x08\x0b-\x1f]")

    def _drawn(self, call, draw, *what):
        try:
            return draw(*what)
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise PageError(f"cannot draw {call['lab']}.{call['name']}: {type(error).__name__}: {str(error)[:200]}.") from None

    def _drawing(self, name):
        try:
            return self.drawing(name)
        except KeyError:
            raise PageError(f"there is no docs/theme/drawings/{name}.svg.") from None

    def _figure(self, kind, inner):
        return self._place(f'<figure class="{kind}" data-search-exclude>{inner}</figure>')

    def _place(self, figure):
        self.figures.append(figure)
        return f'\n<figure data-figure="{len(self.figures) - 1}"></figure>\n'

    def provenance(self, result):
        """One line that says where the numbers come from, with a link to their JSON."""
        machine, software, source = result["machine"], result["software"], result["source"]
        words = self.words
        parts = [f"torch {software['torch']}"]
        if machine.get("driver"):
            parts.append(f"{words['driver']} {machine['driver']}")
        parts.append(result["run"]["started"][:10])
        if source.get("commit"):
            parts.append(f"{words['commit']} {source['commit'][:9]}" + (f" ({words['dirty']})" if source["dirty"] else ""))
        space = "" if words["measured"].endswith("：") else " "
        badge = f'<strong class="gpu">{plain(machine["gpu"])}</strong>'
        text = " · ".join(map(plain, parts))
        link = f'<a href="{self.root}{result["url"]}">{words["json"]}</a>'
        stale = f' <strong class="stale">{words["stale"]}</strong>' if result["stale"] else ""
        return f'<p class="provenance" data-search-exclude>{words["measured"]}{space}{badge} · {text} · {link}{stale}</p>'


def plain(value):
    """What a result says, as text in a page: nothing in it is HTML, Markdown or a formula, and it stays on its line."""
    return re.sub(r"""[&<>"`*_\[\]{}$\\]""", lambda m: f"&#{ord(m[0])};" if m[0] not in ENTITIES else ENTITIES[m[0]], re.sub(r"[\x00-\x1f\x7f]", " ", str(value)))


ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def _inside_fence(call, text, forbidden):
    """Code is shown as it is, so it must not hold what ends its fence or asks for another file."""
    if found := re.search(rf"^\s*(`{{3}}|~{{3}})|-8<-|{forbidden}", text, re.M):
        raise PageError(f"{call['lab']}.{call['name']} holds {found[0]!r}, which cannot stand inside a fence. Print something else and measure again.")
    return text


def _drawable(call, name, rows, gaps=False):
    """Logarithmic axes take positive numbers; a curve may have gaps and the axis below it none."""
    cells = [row.get(name) for row in rows]
    for value in cells:
        if not (value is None and gaps or isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e300):
            raise PageError(f"a chart draws positive numbers, and {call['lab']} has {str(value)[:60]!r} in column '{name}'.")
    if all(value is None for value in cells):
        raise PageError(f"{call['lab']} has no number in column '{name}' to draw.")


def _filters(text):
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


def _known(call, name, rows):
    for row in rows:
        if name in row:
            continue
        stem = name.rsplit("_", 1)[0]
        near = sorted(column for column in row if column.rsplit("_", 1)[0] == stem)
        hint = f" It has {', '.join(near)}: mind the unit." if near else f" Columns: {', '.join(sorted(row))}."
        raise PageError(f"{call['lab']} has no column '{name}' in the rows selected.{hint}")


def _unit(name):
    return UNITS.get(name.rsplit("_", 1)[-1]) if "_" in name else None


def _unit_behind(name, rest):
    unit = _unit(name)
    follows = re.match(r"(?:\s|&nbsp;|\*)*(MiB|GiB|KiB|MB|GB/s|GB|kB|TB/s|TFLOP/s|GFLOP/s|ms|µs|us|s\b|%|bytes?|字节|B\b)", rest)
    if unit and follows and follows[1] not in SHOWN_BYTES.get(name.rsplit("_", 1)[-1], (unit,)):
        raise PageError(f"'{name}' is in {unit}, but '{follows[1]}' is written behind it.")


def _unit_in_header(cell, name):
    unit = _unit(name)
    accepted = SHOWN_BYTES.get(name.rsplit("_", 1)[-1], (unit,))
    if unit and not any(re.search(rf"(?<![A-Za-z]){re.escape(word)}(?![A-Za-z/])", cell) for word in accepted):
        raise PageError(f"the header cell '{cell}' over column '{name}' must say its unit, {unit}.")


def _program_in_header(cell, name):
    """A column of one program does not stand under the name of another."""
    own, said = name.split("_")[0], [program for program in PROGRAMS if re.search(rf"(?<![a-z]){program}(?![a-z])", cell.lower())]
    if own in PROGRAMS and said and own not in said:
        raise PageError(f"'{cell}' names {said[0]}, and stands over {name}.")


def _format(name, value, spec):
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
        return f"{value:,}" if _unit(name) else str(value)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.2e}"


def _column_format(values):
    """One number of decimals for a whole column of floats, about three digits of its middle value."""
    sizes = sorted(abs(v) for v in values if isinstance(v, float))
    if not sizes or 0 < sizes[-1] < 1e-3:
        return None
    if all(size == int(size) for size in sizes) or sizes[0] >= 100:
        return ",.0f"
    middle = sizes[len(sizes) // 2]
    return ",.1f" if middle >= 10 else ",.2f" if middle >= 1 else ".3f" if middle >= 0.05 else ".3g"


def _cell(name, text, value):
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
