"""Charts as inline SVG: log-log lines drawn by matplotlib, coloured by the theme's CSS variables."""
import functools
import io
import json
import logging
import re
import warnings

# Matplotlib draws in these stand-in colours; the SVG gets the variables of docs/theme/css/figures.css.
INK, MUTED = "#010203", "#040506"
SERIES = {"#100001": "var(--fig-naive)", "#100002": "var(--fig-flash)", "#100003": "var(--fig-accent)", "#100004": "var(--fig-ink)"}
COLOURS = {INK: "var(--fig-ink)", MUTED: "var(--fig-muted)", **SERIES}
MARKERS = "osD^"


def line(rows, labels, unit, words):
    """An SVG of `labels[1:]` over `labels[0]`, both axes logarithmic with base 2.

    rows    list of flat dicts; a missing or null cell leaves a gap
    labels  {column: label}, the first is the x axis
    unit    name of the y axis
    """
    key = json.dumps([[row.get(name) for name in labels] for row in rows])
    curves = words.chart.next.text.join(label for _, label in [*labels.items()][1:]) + (words.chart.unit.text.format(unit=unit) if unit else "")
    return _themed(_line(key, tuple(labels.items()), unit), words.chart.line.text.format(curves=curves, axis=next(iter(labels.values()))))


@functools.lru_cache(maxsize=64)
def _line(key, labels, unit):
    plt = _pyplot()
    rows = json.loads(key)
    (_, x_label), *curves = labels
    with warnings.catch_warnings(), plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "chart", "font.sans-serif": ["DejaVu Sans"], "font.size": 11}):
        warnings.simplefilter("ignore", UserWarning)   # the label's glyphs are the browser's business
        figure, axes = plt.subplots(figsize=(6.2, 3.7))
        for n, (colour, (_, label)) in enumerate(zip(SERIES, curves)):
            points = [(row[0], row[n + 1]) for row in rows if row[n + 1] is not None]
            axes.plot(*zip(*points), color=colour, marker=MARKERS[n], markersize=6, linewidth=2, label=label)
            x, y = points[-1]
            axes.annotate(f"{y:,.0f}", (x, y), textcoords="offset points", xytext=(0, 8), ha="center", color=colour, size=10)
        xs = sorted({row[0] for row in rows})
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(xs, [str(x) for x in xs])
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.0f}" if y >= 1 else f"{y:g}")
        axes.minorticks_off()
        axes.margins(y=0.12)
        axes.set_xlabel(x_label, color=INK)
        axes.set_title(unit, loc="left", color=INK, size=11)
        _finish(axes, "upper left")
        return _svg(plt, figure)


def roofline(rows, labels, values, words):
    """An SVG of TFLOP/s over FLOP per byte, both logarithmic: one point a row, under the measured ceilings.

    rows    flat dicts with impl, intensity, tflops; rows that failed leave a gap
    labels  {impl: label}
    values  the result's values: copy_gbps and matmul_tflops are the ceilings
    """
    points = [[row["impl"], row["intensity"], row["tflops"], row["S"]] for row in rows if row["impl"] in labels and row.get("tflops")]
    svg = _roofline(json.dumps(points), tuple(labels.items()), values["copy_gbps"], values["matmul_tflops"], words.chart.intensity.text)
    return _themed(svg, words.chart.roofline.text.format(curves=words.chart.next.text.join(labels.values())))


@functools.lru_cache(maxsize=64)
def _roofline(key, labels, copy_gbps, matmul_tflops, x_label):
    plt = _pyplot()
    points = json.loads(key)
    with warnings.catch_warnings(), plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "chart", "font.sans-serif": ["DejaVu Sans"], "font.size": 11}):
        warnings.simplefilter("ignore", UserWarning)
        figure, axes = plt.subplots(figsize=(6.2, 4.2))
        low, high = min(p[1] for p in points) / 2, max(p[1] for p in points) * 2
        ridge = matmul_tflops * 1e3 / copy_gbps
        axes.plot([low, ridge, high], [low * copy_gbps / 1e3, matmul_tflops, matmul_tflops], color=INK, linewidth=1.5)
        axes.annotate(f"{copy_gbps:,.0f} GB/s", (ridge / 2, matmul_tflops / 2), textcoords="offset points", xytext=(-8, 2), ha="right", color=INK, size=10)
        axes.annotate(f"{matmul_tflops:,.0f} TFLOP/s", (high, matmul_tflops), textcoords="offset points", xytext=(0, 6), ha="right", color=INK, size=10)
        axes.axvline(ridge, color=MUTED, linewidth=0.8, linestyle=":")
        for n, (colour, (impl, label)) in enumerate(zip(SERIES, labels)):
            mine = [p for p in points if p[0] == impl]
            axes.plot([p[1] for p in mine], [p[2] for p in mine], color=colour, marker=MARKERS[n], markersize=6, linewidth=1, label=label)
            if n != 1 or len(labels) == 1:
                for p in (mine[0], mine[-1]):
                    axes.annotate(f"S {p[3]}", (p[1], p[2]), textcoords="offset points", xytext=(4, -12 if n == 0 else 7), color=colour, size=9)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda x, _: f"{x:,.0f}" if x >= 1 else f"{x:g}")
        axes.minorticks_off()
        axes.set_xlabel(x_label, color=INK)
        axes.set_title("TFLOP/s", loc="left", color=INK, size=11)
        _finish(axes, "lower right")
        return _svg(plt, figure)


def _finish(axes, legend):
    axes.tick_params(colors=INK)
    axes.grid(True, color=MUTED, linewidth=0.5, alpha=0.5)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.legend(frameon=False, labelcolor=INK, loc=legend)


def _svg(plt, figure):
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    plt.close(figure)
    return out.getvalue()


def _pyplot():
    import matplotlib

    matplotlib.use("svg")
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    import matplotlib.pyplot as plt

    return plt


def _themed(svg, title):
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "inherit", svg)
    svg = re.sub(r"font: ([\d.]+px) inherit", r"font-size: \1", svg)
    for colour, variable in COLOURS.items():
        svg = svg.replace(colour, variable)
    label = title.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    svg = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), svg)   # a hundredth of a pixel
    return re.sub(r"\s*\n\s*", " ", svg).strip()
