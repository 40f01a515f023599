"""Charts as inline SVG, both axes logarithmic: each curve named at its end, ceilings drawn, and the value of each point shown where a pointer or the keyboard is.

A point is a <g class="point"> with data-series, data-x and data-y; the <svg> has data-scale-x and data-scale-y, "low high from to":
the values at the ends of the axis, and where these lie in the drawing. A value v lies at from + (to - from) · log(v/low)/log(high/low).
"""
import html
import math
import unicodedata

# One colour a program, on every chart of every page: the variables stand in docs/theme/css/figures.css. A column or impl starts with its program.
PROGRAMS = {"naive": "naive", "flash": "flash", "cudnn": "accent", "math": "naive", "efficient": "ink"}
OTHERS = ("flash", "accent", "naive", "ink")   # of curves that are no program
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, TEXT = 400, 290, 60, 34, 246, 13
ROOM = 27                                      # from one name at a curve's end to the next: two lines


def line(rows, labels, unit, words, ceilings=()):
    """An SVG of `labels[1:]` over `labels[0]`.

    rows      list of flat dicts; a missing or null cell leaves a gap
    labels    {column: label}, the first is the x axis
    unit      of the y axis
    ceilings  [(label, value)], drawn where the axis comes within a factor 4 of them
    """
    (x_name, x_label), *columns = labels.items()
    curves = {name: [(row[x_name], row[name], "") for row in rows if row.get(name) is not None] for name, _ in columns}
    named = dict(columns)
    top = max(y for points in curves.values() for _, y, _ in points)
    ceilings = [(label, value) for label, value in ceilings if top / 2 <= value <= top * 4]
    ys = [y for points in curves.values() for _, y, _ in points] + [value for _, value in ceilings]
    title = words.chart.line.text.format(curves=words.chart.next.text.join(named.values()) + (words.chart.unit.text.format(unit=unit) if unit else ""), axis=x_label)
    chart = Chart(named, (min(row[x_name] for row in rows), max(row[x_name] for row in rows)), (min(ys), max(ys)), unit)
    for label, value in ceilings:
        chart.ceiling(label, [(chart.x[0], value), (chart.x[1], value)])
    return chart.drawn(curves, title, x_label, "S" if x_name == "S" else x_name, ticks=sorted({row[x_name] for row in rows}))


def roofline(rows, labels, values, words):
    """An SVG of TFLOP/s over FLOP per byte: one point a row, under the measured ceilings.

    rows    flat dicts with impl, intensity, tflops; rows that failed leave a gap
    labels  {impl: label}
    values  the result's values: copy_gbps and matmul_tflops are the ceilings
    """
    curves = {impl: [(row["intensity"], row["tflops"], f"S = {row['S']}: ") for row in rows if row["impl"] == impl and row.get("tflops")] for impl in labels}
    copy, matmul = values["copy_gbps"], values["matmul_tflops"]
    xs, ys = ([point[i] for points in curves.values() for point in points] for i in (0, 1))
    low, high, ridge = min(xs) / 2, max(xs), matmul * 1e3 / copy
    chart = Chart(labels, (low, high), (min(*ys, low * copy / 1e3), matmul), "TFLOP/s")
    chart.ceiling(f"{matmul:,.0f} TFLOP/s", [(low, low * copy / 1e3), (ridge, matmul), (high, matmul)])
    chart.note(ridge / 1.15, matmul / 1.15, f"{copy:,.0f} GB/s", "end", -6)
    return chart.drawn(curves, words.chart.roofline.text.format(curves=words.chart.next.text.join(labels.values())), words.chart.intensity.text, None)


class Chart:
    """The axes of one drawing, and what was put on them."""

    def __init__(self, labels, x, y, unit):
        self.labels, self.unit = labels, unit
        self.right = WIDTH - 12 - (max(map(width, [*labels.values(), "88.8 GiB"])))
        self.x = x if x[0] < x[1] else (x[0] / 2, x[1] * 2)
        self.y = y[0] / 1.25, y[1] * 1.25
        self.parts = []

    def at(self, x, y):
        return place(x, *self.x, LEFT + 8, self.right - 8), place(y, *self.y, BOTTOM, TOP)

    def ceiling(self, label, points):
        self.parts.append(f'<path class="ceiling" d="{path([self.at(*point) for point in points])}"/>')
        self.note(*points[0 if len(points) == 2 else -1], label, "start" if len(points) == 2 else "end")

    def note(self, x, y, text, anchor, dx=0):
        px, py = self.at(x, y)
        self.parts.append(f'<text x="{n(px + dx)}" y="{n(py - 5)}" text-anchor="{anchor}">{html.escape(text)}</text>')

    def drawn(self, curves, title, x_label, said, ticks=None):
        """The whole SVG. said: the name of x in a point's value; None where the point says its own. ticks: values below the x axis, else powers of 2."""
        lines, points, ends = [], [], []
        for number, (name, found) in enumerate(curves.items()):
            colour = colour_of(name, number)
            dashed = any(colour_of(other, i) == colour for i, other in enumerate(list(curves)[:number]))
            style = f'class="curve {colour}{" second" if dashed else ""}"'
            where = [self.at(x, y) for x, y, _ in found]
            if not found:
                continue
            lines.append(f'<path {style} d="{path(where)}"/>')
            for i, ((x, y, own), (px, py)) in enumerate(zip(found, where)):
                near = min([math.dist(where[i], other) for j, other in enumerate(where) if j != i], default=28)
                value = html.escape(f"{self.labels[name]}, {own or f'{said} = {x:,}: '}{amount(y, self.unit)}")
                points.append(
                    f'<g {style.replace("curve", "point")} tabindex="0" role="img" aria-label="{value}" data-series="{name}" data-x="{x}" data-y="{y}">'
                    f'<circle class="reach" cx="{n(px)}" cy="{n(py)}" r="{n(max(4, min(14, near / 2)))}"/><circle class="mark" cx="{n(px)}" cy="{n(py)}" r="4"/>'
                    f'<text x="{WIDTH - 4}" y="14" text-anchor="end">{value}</text></g>')
            ends.append([where[-1][1], colour, self.labels[name], amount(found[-1][1], self.unit)])
        for i, end in enumerate(sorted(ends)):                 # names at the ends of curves: each at its own height, none on another
            end[0] = max(end[0], TOP + 4 + i * ROOM)
        for above, below in zip(sorted(ends), sorted(ends)[1:]):
            below[0] = max(below[0], above[0] + ROOM)
        over = max(0, max(end[0] for end in ends) + 14 - BOTTOM)
        names = "".join(
            f'<text class="name {colour}" x="{n(self.right + 6)}" y="{n(y - over)}">{html.escape(label)}<tspan x="{n(self.right + 6)}" dy="13">{value}</tspan></text>'
            for y, colour, label, value in sorted(ends))
        return (
            f'<svg role="group" aria-label="{html.escape(title)}" viewBox="0 0 {WIDTH} {HEIGHT}" data-scale-x="{scale(self.x, LEFT + 8, self.right - 8)}" data-scale-y="{scale(self.y, BOTTOM, TOP)}">'
            + self.axes(x_label, ticks) + "".join(self.parts) + "".join(lines) + names + "".join(points) + "</svg>")

    def axes(self, x_label, ticks):
        grid, made = [], []
        for y in powers(*self.y, 6):
            py = self.at(self.x[0], y)[1]
            grid.append(f"M{LEFT} {n(py)}H{n(self.right)}")
            made.append(f'<text x="{LEFT - 4}" y="{n(py + 4)}" text-anchor="end">{amount(y, self.unit) if self.unit == "MiB" else f"{y:,g}"}</text>')
        room = (self.right - LEFT) / (8 + max(width(f"{x:,g}") for x in ticks or [max(self.x)]))
        ticks = ticks or powers(*self.x, room)
        for x in ticks[::max(1, math.ceil(len(ticks) / room))]:
            px = self.at(x, self.y[0])[0]
            grid.append(f"M{n(px)} {TOP}V{BOTTOM}")
            made.append(f'<text x="{n(px)}" y="{BOTTOM + 17}" text-anchor="middle">{x:,g}</text>')
        unit = "" if self.unit == "MiB" or not self.unit else f'<text class="unit" x="4" y="14">{html.escape(self.unit)}</text>'
        return f'<path class="grid" d="{"".join(grid)}"/>{"".join(made)}{unit}<text x="{n(max((LEFT + self.right) / 2, width(x_label) / 2 + 4))}" y="{HEIGHT - 6}" text-anchor="middle">{html.escape(x_label)}</text>'


def colour_of(name, number):
    """The colour of a column or impl: its program's, else the next of those that are free."""
    return next((colour for program, colour in PROGRAMS.items() if name.startswith(program)), OTHERS[number % len(OTHERS)])


def amount(value, unit):
    """1,904 MiB; 112.9 GiB instead of six digits of MiB."""
    if unit == "MiB" and value >= 1024:
        value, unit = value / 1024, "GiB"
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}" + (f" {unit}" if unit else "")


def place(value, low, high, start, end):
    return start + (end - start) * math.log(value / low) / math.log(high / low)


def powers(low, high, room):
    """Powers of 2 from low to high, at most about `room` of them."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = max(1, math.ceil((last - first + 1) / room))
    return [2.0**i if i < 0 else 2**i for i in range(first, last + 1) if i % step == 0]


def path(points):
    return "M" + "L".join(f"{n(x)} {n(y)}" for x, y in points)


def scale(ends, start, end):
    return " ".join(map(n, (*ends, start, end)))


def n(number):
    return f"{number:.2f}".rstrip("0").rstrip(".")


def width(text):
    """About how wide a text is drawn: a Chinese character is as wide as it is high, a Latin one not quite 0.6 of it."""
    return TEXT * sum(1 if unicodedata.east_asian_width(char) in "WF" else 0.57 for char in text)
