"""Two folders of results side by side: which rows differ by more than their spread. Standard library only.

    python compare.py results/nvidia-h200 results/my-card              as plain text
    python compare.py --markdown before after > summary.md             for a pull request
    python compare.py --all before after                               every cell, `*` where it differs

A folder holds <lab>.json files, or folders of a card each that do; cards are paired by name, a single card with a single card.
Rows are paired by their settings: part, shape, dtype, implementation. Then

- a time differs when its ranges (10th to 90th percentile, or smallest to largest) do not meet and its medians lie more than 5 % apart;
  a time without a range, when it lies more than 10 % apart;
- requested bytes differ when they are not equal; those that a counter counted (rows with spread_pct), by more than 10 %, that spread and 1 MiB;
- an error against fp64 differs by a factor of 1.5; words (kernel, backend, status, …) when they are not the same.

Not compared: what follows from these (TFLOP/s, ratios, percentages); one call as the host sees it (alone_ms, which moves by half from run to
run); the allocator's blocks. Exit status 0: nothing differs; 1: something does; 2: there is nothing to compare, said in one line.
"""

import argparse
import json
import math
import pathlib
import re
import sys

SETTINGS = {"part", "group", "case", "impl", "step", "when", "inputs", "rounded", "a", "b", "again", "B", "heads", "kv_heads", "S", "S_q", "S_kv", "d", "dtype",
            "in_dtype", "causal", "layout", "mask", "enable_gqa", "grad", "deterministic", "parts", "sharding", "rotate", "gpus",
            "link", "message_mib", "cap_gib", "capability", "name", "what"}
WORDS = {"status", "kernel", "naive_kernel", "no_cudnn_kernel", "backend", "no_cudnn_backend", "choice", "no_cudnn_choice", "result",
         "equals_v0", "identical", "within_rule", "order"}
UNITS = ("_mib", "_gib", "_gb", "_bytes", "_ms", "_us", "_tflops", "_gbps", "_pct", "_err")
NOT_COMPARED = ("predicted", "model", "floor", "traffic_bytes", "delta_bytes", "score_bytes", "copy_ms", "alone_ms", "alloc_mib", "reserved_mib", "p10_", "p90_", "allowed")
CELLS = ".cells.json"                                     # what a notebook gave: no result
TIME, TIME_WITHOUT_RANGE, COUNTED, COUNTED_MIB, ERROR = 0.05, 0.10, 0.10, 1.0, 1.5


class Problem(Exception):
    """Nothing can be compared; the message is the line to print."""


def cards(folder):
    """{card: {lab: result}} of a folder of results. Raises Problem for what is missing or is no result."""
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise Problem(f"There is no folder {folder}.")
    own = {path.stem: read_result(path) for path in sorted(folder.glob("*.json")) if path.name != "schema.json" and not path.name.endswith(CELLS)}
    found = {folder.resolve().name: own} if own else {}
    for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
        labs = {path.stem: read_result(path) for path in sorted(inner.glob("*.json")) if not path.name.endswith(CELLS)}
        found |= {inner.name: labs} if labs else {}
    if not found:
        raise Problem(f"{folder} holds no results: no <lab>.json, and no folder of a card with some.")
    return found


def read_result(path):
    """One result, complete or not. Raises Problem, naming the file, for what is not a result."""
    try:
        result = strict_json(path.read_text("utf-8"))
        if not all(isinstance(row, dict) for row in result["rows"]):
            raise TypeError("a row is not an object")
        if any(isinstance(value, (dict, list)) or is_number(value) and abs(value) > 1e300 for row in result["rows"] for value in row.values()):
            raise TypeError("a row holds more than words and numbers")
        said = [result["machine"]["gpu"], result["software"]["torch"], program(result), result["run"]["started"]]
        if not all(isinstance(text, str) for text in said + [result["source"].get("commit") or "", result["run"].get("error") or ""]):
            raise TypeError("the card, the versions, the commit, the day and the error are words")
        if result["run"]["status"] not in ("ok", "running", "failed"):
            raise ValueError(f"run.status is {result['run']['status']!r}")
    except (ValueError, RecursionError, OSError, KeyError, TypeError, AttributeError) as error:
        raise Problem(f"{path} is no result: {type(error).__name__}: {' '.join(str(error).split())}") from None
    return result


def program(result):
    """What a result says of the program that measured: its identity; before there was one, the sha256 of its file."""
    return result["source"]["id" if "id" in result["source"] else "sha256"]


def strict_json(text):
    """What a JSON text says. Raises ValueError for what other readers of JSON refuse or read otherwise: NaN, a number that overflows, a name twice, half a character."""
    def refuse(name):
        raise ValueError(f"{name} is not JSON")

    def number(digits):
        return refuse(digits[:30]) if math.isinf(float(digits)) else float(digits)

    def once(pairs):
        names = dict(pairs)
        return names if len(names) == len(pairs) else refuse("a name given twice, among " + ", ".join(names)[:200] + ",")

    result = json.loads(text, parse_constant=refuse, parse_float=number, object_pairs_hook=once)
    json.dumps(result, ensure_ascii=False).encode("utf-8")
    return result


def measured(name):
    return name == "ms" or name.endswith(UNITS) and name not in SETTINGS


def key_of(row):
    """The settings of a row: its named columns that stand before the first measured one."""
    key = []
    for name, value in row.items():
        if measured(name):
            break
        if name in SETTINGS and value is not None:
            key.append((name, value))
    return tuple(key)


def keyed(rows):
    """{(settings, n): row}: the n-th row with these settings, so that rows that no setting tells apart are paired in their order."""
    found, seen = {}, {}
    for row in rows:
        key = key_of(row)
        seen[key] = seen.get(key, 0) + 1
        found[key, seen[key]] = row
    return found


def range_of(row, name):
    """(low, high) of a time as its row says it, or None."""
    stem = name.removesuffix("ms")
    for low, high in ((f"{stem}p10_ms", f"{stem}p90_ms"), (f"{name}_min", f"{name}_max")):
        if is_number(row.get(low)) and is_number(row.get(high)):
            return row[low], row[high]
    return None


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def compared(row):
    """The columns of a row that are compared: words, times, bytes, errors; not their ranges, nor what follows from them."""
    for name in row:
        if name in WORDS:
            yield name
        elif name in SETTINGS or any(part in name for part in NOT_COMPARED):
            continue
        elif name == "ms" or name.endswith(("_ms", "_us", "_mib", "_gib", "_err")) or name == "rmse" or name.startswith("rel_err"):
            yield name
        elif name.endswith("_bytes") and name.removesuffix("bytes") + "mib" not in row:
            yield name


def differs(name, a, b):
    """Whether rows a and b differ in this column by more than their spread."""
    x, y = a.get(name), b.get(name)
    if name in WORDS or not (is_number(x) and is_number(y)):
        return x != y
    if name.endswith(("ms", "_us")):
        ranges = range_of(a, name), range_of(b, name)
        if None in ranges:
            return apart(x, y) > TIME_WITHOUT_RANGE
        (low_a, high_a), (low_b, high_b) = ranges
        return (high_a < low_b or high_b < low_a) and apart(x, y) > TIME
    if name.endswith(("_err", "rmse")) or name.startswith("rel_err"):
        small, large = sorted((abs(x), abs(y)))
        return large > ERROR * small
    if "spread_pct" in a or "spread_pct" in b:
        mib = abs(x - y) / (2**20 if name.endswith("_bytes") else 1)
        return mib > COUNTED_MIB and apart(x, y) > max(COUNTED, *(row["spread_pct"] / 100 for row in (a, b) if is_number(row.get("spread_pct"))))
    return x != y


def apart(x, y):
    """How far two numbers lie apart, as a fraction of the smaller."""
    small, large = sorted((abs(x), abs(y)))
    return 0.0 if small == large and x == y else (large - small) / small if small and x * y > 0 else float("inf")


def compare_lab(a, b):
    """Compare two results of a lab: (rows in both, only in A, only in B, [(settings, column, row a, row b, differs)])."""
    left, right = keyed(a["rows"]), keyed(b["rows"])
    both = [key for key in left if key in right]
    cells = [(key, name, left[key], right[key], differs(name, left[key], right[key]))
             for key in both for name in dict.fromkeys([*compared(left[key]), *compared(right[key])])]
    return both, [key for key in left if key not in right], [key for key in right if key not in left], cells


def label(key, keys):
    """The part, and as many settings as tell the row from its siblings: `grid impl=flash S=4096 causal=no`."""
    (settings, n), part = key, dict(key[0]).get("part")
    siblings, shown = [dict(other) for other, _ in keys if dict(other).get("part") == part], []
    for name, value in settings:
        left = [other for other in siblings if other.get(name) == value]
        if name != "part" and len(left) < len(siblings):
            shown.append(f"{name}={word(value)}")
            siblings = left
    return " ".join([*([part] if part else []), *shown, *([f"#{n}"] if n > 1 else [])]) or "(one row)"


def word(value):
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def cell_text(name, row, other):
    """A value with its range; a long name as the part in which it differs from the other's."""
    value = row.get(name)
    if isinstance(value, str) and len(value) > 40:
        ours, theirs = value, str(other.get(name))
        start = next((i for i, (x, y) in enumerate(zip(ours, theirs)) if x != y), min(len(ours), len(theirs)))
        start = max(0, min(start - 12, len(value) - 36))
        return ("…" if start else "") + value[start:start + 36] + ("…" if start + 36 < len(value) else "")
    ranges = range_of(row, name) if name.endswith("ms") else None
    return word(value) + (f" [{ranges[0]:.4g}, {ranges[1]:.4g}]" if ranges else "")


def change(x, y):
    return f"{(y - x) / abs(x):+.1%}" if is_number(x) and is_number(y) and x else ""


def about(result):
    run = "" if result["run"]["status"] == "ok" else f", {result['run']['status']}: {result['run'].get('error') or 'stopped early'}"
    commit = (result["source"].get("commit") or "no commit")[:9]
    return " ".join(f"{result['machine']['gpu']}, torch {result['software']['torch']}, {result['run']['started'][:10]}, {commit}{run}".split())


def pairs(a, b):
    """The cards to compare, as [(title, labs of A, labs of B)]."""
    if len(a) == 1 and len(b) == 1:
        (name, left), (other, right) = *a.items(), *b.items()
        return [(name if name == other else f"{name} | {other}", left, right)]
    return [(name, a.get(name, {}), b.get(name, {})) for name in sorted({*a, *b})]


def report(a, b, markdown=False, every=False):
    """The report as text, and whether anything differs. a, b: what cards() returned."""
    out, rows_seen, rows_off, gaps, shared = [], 0, 0, 0, 0
    say, quoted = out.append, in_markdown if markdown else str
    for title, left, right in pairs(a, b):
        say(f"## {title}\n" if markdown else f"== {title} ==")
        for lab in sorted({*left, *right}):
            if lab not in left or lab not in right:
                gaps += 1
                say(f"{lab}: only in {'A' if lab in left else 'B'} ({quoted(about(left.get(lab) or right[lab]))})\n")
                continue
            shared += 1
            one, two = left[lab], right[lab]
            both, only_a, only_b, cells = compare_lab(one, two)
            off = {key for key, *_, moved in cells if moved}
            rows_seen, rows_off, gaps = rows_seen + len(both), rows_off + len(off), gaps + len(only_a) + len(only_b)
            say(f"{'### ' if markdown else ''}{lab}: {len(off)} of {len(both)} rows differ{'' if markdown else ' beyond spread'}" + ("\n" if markdown else ""))
            for side, result in (("A", one), ("B", two)):
                say(f"{'- ' if markdown else '  '}{side}  {quoted(about(result))}")
            if program(one) != program(two):
                say(f"{'- ' if markdown else '  '}the two were measured by different versions of the program")
            for side, keys in (("A", only_a), ("B", only_b)):
                if keys:
                    names = [label(key, [*both, *keys]) for key in keys]
                    say(f"{'- ' if markdown else '  '}only in {side}: {quoted('; '.join(names[:5]))}" + (f" and {len(names) - 5} more" if len(names) > 5 else ""))
            chosen = [entry for entry in cells if every or entry[-1]]
            table = [("row", "column", "A", "B", "change")] + [
                (label(key, both), ("* " if every and moved else "") + name, cell_text(name, x, y), cell_text(name, y, x), change(x.get(name), y.get(name)))
                for key, name, x, y, moved in chosen]
            if len(table) > 1:
                out.extend(markdown_table(table) if markdown else text_table(table))
            say("")
    if not shared:
        raise Problem("The two folders have no lab of the same card in common. Name two folders of one card each.")
    last = f"{rows_off} of {rows_seen} rows differ beyond spread" + (f"; {gaps} rows or labs are in one folder only" if gaps else "") + "."
    return ("\n".join([last, "", *out]) if markdown else "\n".join([*out, last])).rstrip() + "\n", bool(rows_off or gaps)


def text_table(table):
    widths = [max(len(row[i]) for row in table) for i in range(5)]
    return ["    " + "  ".join(text.ljust(width) if i < 4 else text.rjust(width) for i, (text, width) in enumerate(zip(row, widths))).rstrip() for row in table]


def markdown_table(table):
    lines = ["", "<details><summary>rows</summary>", "", "| row | column | A | B | change |", "|---|---|--:|--:|--:|"]
    for row in table[1:]:
        lines.append("| " + " | ".join(map(in_markdown, row)) + " |")
    return [*lines, "", "</details>"]


def in_markdown(text):
    """Words of a result in a pull request: no HTML, link, mention or cell of theirs."""
    return re.sub(r"[\\`*_\[|]", r"\\\g<0>", " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("@", "&#64;"))


def main(argv=None):
    """Command line; see the top of this file."""
    parser = argparse.ArgumentParser(prog="compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", metavar="A", type=pathlib.Path, help="a folder of results")
    parser.add_argument("b", metavar="B", type=pathlib.Path, help="another one")
    parser.add_argument("--markdown", action="store_true", help="Markdown, the verdict first")
    parser.add_argument("--all", action="store_true", help="every compared cell and not just those that differ")
    options = parser.parse_args(argv)
    try:
        text, moved = report(cards(options.a), cards(options.b), options.markdown, options.all)
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 2
    sys.stdout.reconfigure(encoding="utf-8")
    print(text, end="")
    return int(moved)


if __name__ == "__main__":
    sys.exit(main())
