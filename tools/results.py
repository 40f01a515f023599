"""Results on their way from a GPU runner to the site. What the workflows do beyond the daily make targets, in one place.

    results.py check                     every committed result is complete, and of a program that is there
    results.py fetch OUT [--run ID]      the newest results-* artifact of each card, or those of one run, into OUT
    results.py take FROM [--claims]      put the complete, newer results of FROM into examples/results
    results.py summary FROM              what became of each lab and which rows moved, as Markdown
    results.py stale                     the labs that measure something else than their committed results did
    results.py spread CARD…              how far runs lie apart, as tests/spread.json, from folders of one card's results

A file that is not a whole result, or is of another card with the name of one that is there, stops `take` before anything is copied. A run that stopped early (running, failed) is whole: it is
named and left where it is. With --claims, results under which a sentence of the pages no longer holds are put back and named.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = TOP / "examples"
RESULTS = EXAMPLES / "results"
sys.path[:0] = [str(TOP / "docs" / "hooks"), str(EXAMPLES)]
sys.dont_write_bytecode = True
LARGEST = 16 * 2**20   # bytes of one result

import compare  # noqa: E402
import run  # noqa: E402
from core import gpu, results  # noqa: E402
from core.errors import PageError  # noqa: E402


class Stop(Exception):
    """The message is the line to print; nothing has been changed."""


def check():
    """Print one line a result. Raises PageError for one that the build would refuse."""
    found = results.load(RESULTS, EXAMPLES)
    for (card, lab), result in found.items():
        print(f"{card}/{lab}: {result['run']['started'][:10]}, commit {(result['source']['commit'] or 'none')[:9]}" + (", measured before the last change of this program" if result["stale"] else ""))
    browsers = gpu.contributed(EXAMPLES / "webgpu" / "results")
    for name, result in browsers.items():
        print(f"webgpu/{name}: {result['run']['started'][:10]}, of a browser")
    print(f"{len(found) + len(browsers)} results are complete.")


def fetch(out, number=None):
    """Download what `newest` names. No artifact is no error: then the site is built with the results that it has."""
    where = f"repos/{os.environ['GITHUB_REPOSITORY']}/actions/{f'runs/{number}/' if number else ''}artifacts?per_page=100"
    chosen = newest(json.loads(ask("gh", "api", where))["artifacts"])
    for name, of in chosen.items():
        ask("gh", "run", "download", str(of), "--name", name, "--dir", str(out / name))
        print(f"{name} of run {of}")
    if not chosen:
        print("There is no artifact with results: the results of the repository stay.")


def newest(artifacts):
    """{name: run} of the newest artifact of each card that this repository's own main branch made, and no fork."""
    found = {}
    for one in sorted(artifacts, key=lambda one: one["created_at"], reverse=True):
        made = one["workflow_run"]
        own = made["head_branch"] == "main" and made["head_repository_id"] == made["repository_id"]
        if own and not one["expired"] and re.fullmatch(r"results-[a-z0-9-]+", one["name"]):
            found.setdefault(one["name"], made["id"])
    return found


def ask(*command):
    done = subprocess.run(command, capture_output=True, text=True, cwd=TOP)
    if done.returncode:
        raise Stop(f"{' '.join(command[:3])} failed: {' '.join(done.stderr.split())}")
    return done.stdout


def whole(folder):
    """{(card, lab): (path, result)} of every JSON file below `folder` but the schema that stands beside results. Raises Stop naming the first that is not whole."""
    found = {}
    for path in sorted(path for path in folder.rglob("*.json") if not path.name.endswith(compare.CELLS)):   # a notebook's cells are no result
        card, name = path.parent.name, path.relative_to(folder).as_posix()
        if path.name == "schema.json":
            print(f"{name}: passed over, for it is no result")
            continue
        if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
            raise Stop(damaged(name, "it is no plain file of a result's size"))
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", card) or not re.fullmatch(r"[a-z][a-z0-9_]*", path.stem):
            raise Stop(damaged(name, "the path is not <gpu>/<lab>.json"))
        try:
            result = compare.read_result(path)
        except compare.Problem as problem:
            raise Stop(damaged(name, str(problem).split(": ", 1)[1])) from None
        found[card, path.stem] = path, result
    return found


def damaged(name, why):
    return f"{name} is damaged: {why}. Nothing was taken and nothing is published. Measure again (workflow measure), or delete that artifact."


def take(folder, claims=False):
    """See the top of this file."""
    found = whole(folder)
    complete = {key: value for key, value in found.items() if value[1]["run"]["status"] == "ok"}
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        shutil.copy(RESULTS / "schema.json", scratch)
        for (card, lab), (path, _) in complete.items():
            (scratch / card).mkdir(exist_ok=True)
            shutil.copyfile(path, scratch / card / f"{lab}.json")
        try:
            fresh = results.load(scratch, EXAMPLES)
        except PageError as error:
            raise Stop(damaged(*str(error).removeprefix("examples/results/").split(": ", 1))) from None
        for (card, lab), new in fresh.items():
            if run.slug(new["machine"]["gpu"]) != card:
                raise Stop(damaged(f"{card}/{lab}.json", f"it was measured on {new['machine']['gpu']}"))
        had, before, taken = results.load(RESULTS, EXAMPLES), {}, []
        for (card, lab), (_, result) in found.items():
            name, old, new = f"{card}/{lab}", had.get((card, lab)), fresh.get((card, lab))
            if new is None:
                print(f"{name}: {result['run']['status']} ({result['run'].get('error') or 'stopped early'}) after {len(result['rows'])} rows; they are kept in the artifact, the last complete result stays")
            elif old and new["run"]["started"] <= old["run"]["started"]:
                print(f"{name}: of {new['run']['started']}, not newer than the result that is there")
            elif old and new["stale"] and not old["stale"]:
                print(f"{name}: measured by an older version of the program than the result that is there")
            else:
                if other := run.another_card(RESULTS / card / f"{lab}.json", new["machine"]):
                    raise Stop(f"{other}. Nothing was taken: keep this one's results in a folder of their own, or delete those that are there first.")
                taken.append((card, lab))
                print(f"{name}: taken, {len(new['rows'])} rows of {new['run']['started']}" + (", measured before the last change of this program" if new["stale"] else ""))
        for card, lab in taken:
            path = RESULTS / card / f"{lab}.json"
            before[path] = path.read_bytes() if path.is_file() else None
            path.parent.mkdir(exist_ok=True)
            shutil.copyfile(scratch / card / f"{lab}.json", path)
    if claims and taken and not hold():
        for path, data in before.items():
            if data is None:
                path.unlink()
            else:
                path.write_bytes(data)
        print("::warning::A sentence of the pages does not hold for the fresh results (above): the site keeps the last ones until their pull request is merged.")
    elif not taken:
        print("Nothing newer to take.")


def hold():
    """Whether the sentences that rest on results hold."""
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TOP / "tests" / "test_claims.py")], cwd=TOP).returncode == 0


def summary(folder):
    """Markdown: the outcome of each lab, then the rows that moved."""
    lines = ["# Measured again", ""]
    for path in sorted(folder.rglob("outcome.txt")):
        lines += [f"**{path.parent.name.removeprefix('results-')}**", "", *[f"- {compare.in_markdown(line)}" for line in path.read_text("utf-8", "replace").splitlines()], ""]
    fresh = {}
    for (card, lab), (_, result) in whole(folder).items():
        fresh.setdefault(card, {})[lab] = result
    if not fresh:
        return "\n".join([*lines, "No lab gave a row."])
    had = {card: labs for card, labs in compare.cards(RESULTS).items() if card in fresh}
    for card, labs in fresh.items():
        old = {lab: result for lab, result in had.get(card, {}).items() if lab in labs}
        if old:
            lines.append(compare.report({card: old}, {card: labs}, markdown=True)[0])
        else:
            lines.append(f"## {card}\n\nA new card: {', '.join(labs)}.\n")
    return "\n".join([*lines, "A is the result in the repository, B the new one. A merged result is shown at the next publish; a sentence that no longer holds is named by `tests/test_claims.py`."])


def stale():
    """Print the labs without a result, or measured before their last change; to a workflow they are the output `labs`, in one line."""
    found = results.load(RESULTS, EXAMPLES)
    labs = [lab for lab in run.find_labs(EXAMPLES) if not any(name == lab for _, name in found) or any(result["stale"] for (_, name), result in found.items() if name == lab)]
    print("\n".join(labs) or "Every result is of its program as it stands.")
    if "GITHUB_OUTPUT" in os.environ:
        with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as file:
            file.write(f"labs={' '.join(labs)}\n")


def spread(folders):
    """Write tests/spread.json: the runs, and for each program and time how far apart they lie at most, as a share, row by row of its part."""
    runs, found = {}, {}
    for folder in folders:
        for path in sorted(folder.glob("*.json")):
            if not path.name.endswith(compare.CELLS):
                runs.setdefault(path.stem, []).append(results.strict_json(path.read_text("utf-8")))
    for lab, several in runs.items():
        tables = [compare.keyed(result["rows"]) for result in several]
        for key, row in tables[-1].items():
            same = [table[key] for table in tables if key in table]
            for name in {**dict.fromkeys(compare.compared(row)), **dict.fromkeys(name for name in row if name.endswith("alone_ms"))}:   # sentences rest on one call's time too
                values = [other[name] for other in same if compare.is_number(other.get(name))]
                if name.endswith("ms"):
                    found.setdefault((lab, row["part"], row.get("impl"), name), []).append(round(compare.apart(min(values), max(values)), 3) if values else 0)
    said = [{"lab": lab, "gpu": result["machine"]["gpu"], "started": result["run"]["started"]} for lab, several in sorted(runs.items()) for result in several]
    rows = [dict(zip(("lab", "part", "impl", "column"), group), apart=shares) for group, shares in sorted(found.items(), key=str)]
    lines = [",\n".join(f"  {json.dumps(one)}" for one in many) for many in (said, rows)]
    (TOP / "tests" / "spread.json").write_text(f'{{"runs": [\n{lines[0]}\n],\n"rows": [\n{lines[1]}\n]}}\n', "utf-8", newline="\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check")
    commands.add_parser("stale")
    commands.add_parser("fetch").add_argument("folder", type=pathlib.Path)
    commands.choices["fetch"].add_argument("--run")
    commands.add_parser("take").add_argument("folder", type=pathlib.Path)
    commands.choices["take"].add_argument("--claims", action="store_true")
    commands.add_parser("spread").add_argument("folders", type=pathlib.Path, nargs="+")
    commands.add_parser("summary").add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    try:
        if options.command == "check":
            check()
        elif options.command == "stale":
            stale()
        elif options.command == "fetch":
            fetch(options.folder.resolve(), options.run)
        elif options.command == "spread":
            spread(options.folders)
        elif options.command == "take":
            take(options.folder, options.claims)
        else:
            print(summary(options.folder))
    except (Stop, PageError, compare.Problem) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
