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
    {{ difference.fused[since=unfused] }}          what a program of examples/kernels changes in the one before, on a line of its own
    {{ drawing.name }}                             an SVG of docs/theme/drawings, on a line of its own
    : What to see in it.                           the caption of a drawing or chart, on the line below it; the build numbers it
    {{ widget.name[option=value] }}                what readers use in the page (widgets.py), on a line of its own
    {{ site.url }}                                 where the site is published
"""
import re
from dataclasses import dataclass

from . import charts, differences, drawings, evidence, measured, widgets
from .errors import PageError
from .measured import CANDIDATE, plain
from .words import label

# What a writer meant as a placeholder and CANDIDATE does not see: it would stand in the page as it is written.
MEANT = re.compile(r"(?<![$\\{])\{\{\s*([^{}\\$\s]*[./@][^{}\\$]*?)\s*\}\}(?!\})")
COLUMN = re.compile(r"(?a)^([A-Za-z_]\w*)$|\s*\{([A-Za-z_]\w*)\}$")   # a header's cell is the name of its column, or ends in it
CAPTION = re.compile(r"\s*: +(?=\S)")
PROGRAMS = ("naive", "flash", "cudnn")


@dataclass(frozen=True)
class Draft:
    """A page whose placeholders are filled in: its Markdown, the figures that wait for their marks in it, (gpu, lab) of each result that it shows."""

    markdown: str
    figures: tuple = ()
    used: tuple = ()

    def place_figures(self, content):
        """Put the charts and drawings where their marks are in the rendered page."""
        said = {}
        content = re.sub(r'<p><span data-caption="(\d+)"></span>(.*?)</p>\n?', lambda caption: said.update({caption[1]: caption[2]}) or "", content, flags=re.S)
        for i, figure in enumerate(self.figures):
            content = content.replace(f'<figure data-figure="{i}"></figure>', figure.replace("</strong></figcaption>", f"</strong>{said.get(str(i), '')}</figcaption>"))
        return content


class Page:
    """Expands the placeholders of one page, at `place` (book.Place), from what the build knows (book.Book)."""

    def __init__(self, book, place):
        self.book, self.place, self.numbers, self.figures = book, place, measured.Numbers(book, place), []
        self.numbered, self.below = 0, ""   # drawings and charts so far; the line under the one that is read

    def draft(self, markdown, first_line=1):
        """The Draft of the page's Markdown, whose first line is that line of its file."""
        text = self.expand(markdown, first_line)
        return Draft(text, tuple(self.figures), tuple(key for key, result in self.book.results.items() if result in self.numbers.used))

    def expand(self, markdown, first_line=1):
        """Return the Markdown with every placeholder replaced; figures wait in `self.figures` for `place_figures`."""
        lines, out, fence = markdown.split("\n"), [], None
        for i, line in enumerate(lines):
            if mark := re.match(r"\s*(`{3,}|~{3,})", line):
                fence = mark[1] if fence is None else None if line.strip().startswith(fence) and not line.strip().strip(fence[0]) else fence
            try:
                made = self._line(lines, i, fence is not None, out)
                out.append(_indented(made, line) if CANDIDATE.fullmatch(line.strip()) and fence is None else made)
            except PageError as error:
                error.line = error.line or first_line + i
                raise
        return "\n".join(out)

    def place_figures(self, content):
        return Draft("", tuple(self.figures)).place_figures(content)

    def _line(self, lines, i, fenced, out):
        line, self.below = lines[i], lines[i + 1] if i + 1 < len(lines) else ""
        if not fenced and i and CAPTION.match(line) and _is_figure(lines[i - 1]):
            return CAPTION.sub(f'{line[:len(line) - len(line.lstrip())]}<span data-caption="{len(self.figures) - 1}"></span>', self.numbers.fill(line, fenced), count=1)
        whole = CANDIDATE.fullmatch(line.strip())
        if whole:
            call = measured.parse(whole[1])
            if call["lab"] == "drawing":
                return self._figure("drawing", self._drawing(call["name"]))
            if call["lab"] == "difference":
                return self._place(self._difference(call))
            if call["lab"] == "widget":
                return self._place(widgets.render(call["name"], measured.filters_of(call["filter"]), self.numbers))
            if call["lab"] == "evidence":
                if call["name"] not in self.book.evidence:
                    raise PageError(f"there is no docs/evidence/{call['name']}.json.")
                try:
                    return evidence.table(self.book.evidence[call["name"]], call["name"], measured.filters_of(call["filter"]), self.place.lang, self.place.root, self.numbers.words)
                except (LookupError, TypeError, AttributeError) as error:
                    raise PageError(f"docs/evidence/{call['name']}.json is not whole: {type(error).__name__}: {str(error)[:100]}. Write it again with `make verify-vllm`.") from None
            if call["name"] == "rows":
                return self._rows(call, lines, i, out)
            if call["name"] in ("chart", "roofline"):
                return self._chart(call)
            if call["name"] == "output":
                return self._output(call, fenced)
            if call["name"] == "provenance":
                return self.numbers.provenance(self.numbers.result(call))
        if stray := MEANT.search(CANDIDATE.sub("", line)):
            measured.parse(stray[1])
        return self.numbers.fill(line, fenced)

    def _rows(self, call, lines, i, out):
        """The rows, and below them their provenance; where other cards have this result too, a tab for each card."""
        result = self.numbers.result(call)
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
            header = "| " + " | ".join(cells) + " |"
            out[-2] = _indented(header, lines[i - 2])
        if len(cells) != len(columns):
            raise PageError(f"the header has {len(cells)} cells, the placeholder names {len(columns)} columns.")
        if i + 1 < len(lines) and lines[i + 1].strip():
            raise PageError("an empty line must follow the rows of a table: its provenance line is put there.")
        table = self._table(call, result, cells, columns)
        others = [] if call["gpu"] else [key for key in self.book.results if key[1] == call["lab"] and key[0] != self.place.gpu]
        if not others:
            return table
        del out[-2:]
        tabs = []
        for key in [(self.place.gpu, call["lab"]), *others]:
            other = self.numbers.result({**call, "gpu": key[0]})
            try:
                body = f"{header}\n{rule}\n{self._table(call, other, cells, columns)}"
            except (PageError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
                raise PageError(f"{other['url']}: {error} Measure it again, or take the file away.") from None
            tabs.append(f'=== "{plain(other["machine"]["gpu"])}"\n\n' + "\n".join("    " + line if line else "" for line in body.split("\n")))
        return "\n".join(tabs)

    def _table(self, call, result, cells, columns):
        rows = self.numbers.select(call, result)
        if not rows:
            raise PageError(f"the filter [{call['filter']}] of {call['lab']}.rows selects no row.")
        for cell, name in zip(cells, columns):
            measured.known(call, name, [row for row in rows if name in row] or rows)   # rows of one part may differ: what one lacks is a dash
            _unit_in_header(cell, name)
            _program_in_header(cell, name)
        specs = {name: _column_format([row.get(name) for row in rows]) for name in columns}
        body = ["| " + " | ".join(self._row_cell(name, row, specs[name]) for name in columns) + " |" for row in rows]
        return "\n".join(body) + "\n\n" + self.numbers.provenance(result) + "\n"

    def _row_cell(self, name, row, spec):
        value = row.get(name)
        if value is None:
            return "–" if row["status"] == "ok" or name not in row else plain(label(self.numbers.words, row["status"]) or row["status"])
        if isinstance(value, bool) or isinstance(value, str) and not name.endswith(measured.VERBATIM):
            value = self.numbers.said(name, str(value).lower() if isinstance(value, bool) else value)
        return measured.cell(name, measured.written(name, value, spec if isinstance(value, float) else None), value).replace("|", "&#124;")

    def _chart(self, call):
        result = self.numbers.result(call)
        rows = self.numbers.select(call, result)
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
            svg = self._drawn(call, charts.roofline, rows, labels, result["values"], self.numbers.words)
        else:
            for n, name in enumerate(labels):
                measured.known(call, name, rows)
                _drawable(call, name, rows, gaps=n > 0)
            units = {measured.unit_of(name) for name in list(labels)[1:]}
            if len(units) != 1:
                raise PageError(f"the curves of one chart share one unit, not {', '.join(sorted(map(str, units)))}.")
            unit = units.pop() or ""
            svg = self._drawn(call, charts.line, rows, labels, unit, self.numbers.words, self._ceilings(unit, result))
        return self._figure("chart", svg + self.numbers.provenance(result))

    def _ceilings(self, unit, result):
        """[(label, value)] of what the card cannot exceed in this unit."""
        said, gib = self.numbers.words.chart, result["machine"]["memory"] / 2**30 if "memory" in result["machine"] else None
        if unit == "MiB" and gib:
            return [(said.memory.text.format(gib=f"{gib:.0f}"), gib * 1024)]
        if unit == "GB/s" and result["values"].get("copy_gbps"):
            return [(said.copy.text.format(gbps=f"{result['values']['copy_gbps']:,.0f}"), result["values"]["copy_gbps"])]
        return []

    def _output(self, call, fenced):
        if not fenced:
            raise PageError(f"{{{{ {call['lab']}.output }}}} belongs inside a ```{{.text .no-copy}} fence.")
        return measured.inside_fence(call, self.numbers.result(call)["output"].rstrip("\n"), r"[\x00-\x08\x0b-\x1f]")

    def _drawn(self, call, draw, *what):
        try:
            return draw(*what)
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise PageError(f"cannot draw {call['lab']}.{call['name']}: {type(error).__name__}: {str(error)[:200]}.") from None

    def _difference(self, call):
        names = [str(measured.filters_of(call["filter"]).get("since")), call["name"]]
        texts = [self.book.examples.get(f"kernels/{name}.py") for name in names]
        if None in texts:
            raise PageError(f"there is no examples/kernels/{names[texts.index(None)]}.py: {{{{ difference.name[since=name] }}}} names two of them.")
        return differences.difference(*texts, f"{names[0]}.py", self.numbers.words)

    def _drawing(self, name):
        if name not in self.book.drawings:
            raise PageError(f"there is no docs/theme/drawings/{name}.svg.")
        texts = self.numbers.words["drawings"]
        return drawings.panels(drawings.fill(self.book.drawings[name], texts[name] if name in texts else {}))

    def _figure(self, kind, inner):
        """A drawing or chart with its number; its caption comes in with the rendered page."""
        if not CAPTION.match(self.below):
            raise PageError("a figure needs a caption: on the line below it, a colon, a blank, and what to see.")
        self.numbered += 1
        number = self.numbers.words.page.figure.text.format(n=self.numbered)
        return self._place(f'<figure class="{kind}"><div data-search-exclude>{inner}</div><figcaption><strong>{number}</strong></figcaption></figure>')

    def _place(self, figure):
        self.figures.append(figure)
        return f'\n<figure data-figure="{len(self.figures) - 1}"></figure>\n'


def _is_figure(line):
    whole = CANDIDATE.fullmatch(line.strip())
    call = measured.parse(whole[1]) if whole else None
    return bool(call) and (call["lab"] == "drawing" or call["name"] in ("chart", "roofline"))


def _indented(made, line):
    """What takes the place of a line that stands in a fold, as deep as the line did."""
    return re.sub(r"(?m)^(?=.)", line[:len(line) - len(line.lstrip())], made)


def _drawable(call, name, rows, gaps=False):
    """Logarithmic axes take positive numbers; a curve may have gaps and the axis below it none."""
    cells = [row.get(name) for row in rows]
    for value in cells:
        if not (value is None and gaps or isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e300):
            raise PageError(f"a chart draws positive numbers, and {call['lab']} has {str(value)[:60]!r} in column '{name}'.")
    if all(value is None for value in cells):
        raise PageError(f"{call['lab']} has no number in column '{name}' to draw.")


def _unit_in_header(cell, name):
    unit = measured.unit_of(name)
    accepted = measured.SHOWN_BYTES.get(name.rsplit("_", 1)[-1], (unit,))
    if unit and not any(re.search(rf"(?<![A-Za-z]){re.escape(word)}(?![A-Za-z/])", cell) for word in accepted):
        raise PageError(f"the header cell '{cell}' over column '{name}' must say its unit, {unit}.")


def _program_in_header(cell, name):
    """A column of one program does not stand under the name of another."""
    own, said = name.split("_")[0], [program for program in PROGRAMS if re.search(rf"(?<![a-z]){program}(?![a-z])", cell.lower())]
    if own in PROGRAMS and said and own not in said:
        raise PageError(f"'{cell}' names {said[0]}, and stands over {name}.")


def _column_format(values):
    """One number of decimals for a whole column of floats, about three digits of its middle value."""
    sizes = sorted(abs(v) for v in values if isinstance(v, float))
    if not sizes or 0 < sizes[-1] < 1e-3:
        return None
    if all(size == int(size) for size in sizes) or sizes[0] >= 100:
        return ",.0f"
    middle = sizes[len(sizes) // 2]
    return ",.1f" if middle >= 10 else ",.2f" if middle >= 1 else ".3f" if middle >= 0.05 else ".3g"
