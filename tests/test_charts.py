"""Charts show the numbers they are given: each curve its own column, larger is higher, and the ceilings where they belong."""
import re

import pytest
from core import charts
from support import WORDS

ROWS = [{"S": 2**n, "naive_mib": 4.0**n, "flash_mib": 2.0**n} for n in range(5, 9)]
LABELS = {"S": "length", "naive_mib": "slow", "flash_mib": "fast"}


def curves(svg):
    """{colour: [(x, y) …]} of the lines that are drawn, without the legend's; y grows downwards."""
    found = {}
    for path, colour in re.findall(r'<path d="([^"]*)"[^>]*style="fill: none; stroke: var\(--fig-(\w+)\)', svg):
        points = [tuple(map(float, point)) for point in re.findall(r"[ML] ([\d.-]+) ([\d.-]+)", path)]
        found.setdefault(colour, points)
    return found


def test_each_curve_is_its_own_column():
    found = curves(charts.line(ROWS, LABELS, "MiB", WORDS["en"]))
    naive, flash = found["naive"], found["flash"]
    assert len(naive) == len(flash) == 4 and [x for x, _ in naive] == [x for x, _ in flash]
    rise = [line[0][1] - line[-1][1] for line in (naive, flash)]
    assert rise[0] == pytest.approx(2 * rise[1], rel=1e-3) and rise[1] > 0, "both axes are logarithmic, and S² rises twice as fast as S"
    assert naive[0][1] < flash[0][1]


def test_a_row_that_failed_leaves_a_gap():
    assert len(curves(charts.line([{**ROWS[0], "naive_mib": None}, *ROWS[1:]], LABELS, "MiB", WORDS["en"]))["naive"]) == 3


def test_a_chart_has_a_name_and_says_the_last_value():
    svg = charts.line(ROWS, LABELS, "MiB", WORDS["en"])
    name = re.search(r'<svg role="img" aria-label="([^"]+)"', svg)[1]
    assert "slow" in name and "fast" in name and "65,536" in svg and ">MiB<" in svg and ">length<" in svg


def test_the_ridge_is_where_the_ceilings_meet():
    rows = [{"impl": "flash", "S": S, "intensity": x, "tflops": y} for S, x, y in ((1, 50.0, 100.0), (2, 200.0, 400.0), (4, 800.0, 400.0))]
    svg = charts.roofline(rows, {"flash": "flash"}, {"copy_gbps": 2000.0, "matmul_tflops": 400.0}, WORDS["en"])
    left, ridge, right = curves(svg)["ink"]
    points = curves(svg)["naive"]                          # the first series' colour
    assert ridge == pytest.approx(points[1], abs=0.1) and ridge[1] == right[1] < left[1]
    assert points[0][1] > ridge[1] and "2,000 GB/s" in svg and "400 TFLOP/s" in svg
