"""Charts show the numbers they are given: each curve its own column, larger is higher, names at the ends of curves, and the ceilings where they belong."""
import math
import re
import xml.etree.ElementTree as ET

import pytest
from core import charts
from support import WORDS

ROWS = [{"S": 2**n, "naive_mib": 4.0**n, "flash_mib": 2.0**n} for n in range(5, 9)]
LABELS = {"S": "length", "naive_mib": "slow", "flash_mib": "fast"}


def of(svg, kind):
    return [e for e in ET.fromstring(svg).iter() if kind in e.get("class", "").split()]


def curves(svg):
    """{colour: [(x, y) …]} of the lines that are drawn; y grows downwards."""
    return {e.get("class").split()[1]: pairs(e.get("d")) for e in of(svg, "curve")}


def pairs(d):
    return [tuple(map(float, point.split())) for point in d[1:].split("L")]


def drawn(rows=ROWS, **more):
    return charts.line(rows, LABELS, "MiB", WORDS["en"], **more)


def test_each_curve_is_its_own_column():
    naive, flash = (curves(drawn())[name] for name in ("naive", "flash"))
    assert len(naive) == len(flash) == 4 and [x for x, _ in naive] == [x for x, _ in flash]
    rise = [line[0][1] - line[-1][1] for line in (naive, flash)]
    assert rise[0] == pytest.approx(2 * rise[1], rel=1e-3) and rise[1] > 0, "both axes are logarithmic, and S² rises twice as fast as S"
    assert naive[0][1] < flash[0][1]


def test_a_row_that_failed_leaves_a_gap():
    assert len(curves(drawn([{**ROWS[0], "naive_mib": None}, *ROWS[1:]]))["naive"]) == 3


def test_a_point_says_its_value_and_lies_where_the_scales_put_it():
    svg = drawn()
    root = ET.fromstring(svg)
    points = of(svg, "point")
    assert [(p.get("data-series"), float(p.get("data-x")), float(p.get("data-y"))) for p in points] == [(name, row["S"], row[name]) for name in list(LABELS)[1:] for row in ROWS]
    for p in points:
        assert p.get("tabindex") == "0" and p.get("aria-label") == p[-1].text and LABELS[p.get("data-series")] in p[-1].text and f"S = {p.get('data-x')}: " in p[-1].text
        for axis, where in (("x", "cx"), ("y", "cy")):
            low, high, start, end = map(float, root.get(f"data-scale-{axis}").split())
            value = float(p.get(f"data-{axis}"))
            assert float(p[1].get(where)) == pytest.approx(start + (end - start) * math.log(value / low) / math.log(high / low), abs=.05)
    assert points[3].get("aria-label").endswith(" 64 GiB") and points[4].get("aria-label").endswith(" 32 MiB"), "no six digits of MiB"


def test_curves_are_named_at_their_ends_and_no_name_stands_on_another():
    rows = [{"S": 2**n, **{name: 2.0**n * (1 + i / 100) for i, name in enumerate(("naive_mib", "flash_mib", "naive_kept_mib", "flash_kept_mib"))}} for n in range(5, 9)]
    svg = charts.line(rows, {"S": "S", "naive_mib": "a", "flash_mib": "b", "naive_kept_mib": "c", "flash_kept_mib": "d"}, "MiB", WORDS["en"])
    names = of(svg, "name")
    heights = sorted(float(name.get("y")) for name in names)
    assert {name.text for name in names} == set("abcd") and min(b - a for a, b in zip(heights, heights[1:])) >= charts.ROOM - .01 and heights[-1] + 13 <= charts.HEIGHT
    assert len({(e.get("class")) for e in of(svg, "curve")}) == 4, "two curves of a program differ by their stroke"
    assert ET.fromstring(svg).get("aria-label").startswith("a; b; c; d")


def test_a_program_has_one_colour():
    assert {charts.colour_of(name, n) for n in range(4) for name in ("flash", "flash_mib", "flash_kept_mib")} == {"flash"}
    assert len({charts.colour_of(name, 0) for name in ("naive", "flash", "cudnn", "efficient")}) == 4
    assert [charts.colour_of(name, n) for n, name in enumerate(("rank0_ms", "last_rank_ms"))] == list(charts.OTHERS[:2])


def test_a_ceiling_is_drawn_above_what_comes_near_it_and_no_other():
    top = of(drawn(ceilings=[("card", 2.0**17)]), "ceiling")
    (_, y), (_, end) = pairs(top[0].get("d"))
    assert y == end < min(y for line in curves(drawn(ceilings=[("card", 2.0**17)])).values() for _, y in line)
    assert not of(drawn(ceilings=[("card", 2.0**30)]), "ceiling")


def test_the_ridge_is_where_the_ceilings_meet():
    rows = [{"impl": "flash", "S": S, "intensity": x, "tflops": y} for S, x, y in ((1, 50.0, 100.0), (2, 200.0, 400.0), (4, 800.0, 400.0))]
    svg = charts.roofline(rows, {"flash": "flash"}, {"copy_gbps": 2000.0, "matmul_tflops": 400.0}, WORDS["en"])
    left, ridge, right = pairs(of(svg, "ceiling")[0].get("d"))
    points = curves(svg)["flash"]
    assert ridge == pytest.approx(points[1], abs=0.1) and ridge[1] == right[1] < left[1]
    assert points[0][1] > ridge[1] and "2,000 GB/s" in svg and "400 TFLOP/s" in svg and "S = 4: " in svg
