"""Check every statement about vLLM against the source of a release; `make verify-vllm` runs this.

    python tools/verify/vllm.py            the pinned version and the newest release; writes docs/evidence/vllm.json
    python tools/verify/vllm.py 0.27.0     one version, writes nothing
    python tools/verify/vllm.py newest     the newest release, writes nothing

Exit status 1: a statement does not hold (in a version that is not pinned: and `now` does not explain it). 2: nothing
could be checked: no network, unknown version, damaged archive. The source archive comes from the package index by
`unearth`, which builds and installs nothing; archives are kept in .cache/vllm. PIP_INDEX_URL names another index.
"""
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zlib

TOP = pathlib.Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:1] = [str(TOP / "tools"), str(TOP / "examples")]   # this folder holds a module named vllm, which nobody else should find

from run import as_text  # noqa: E402  results and evidence are written alike: one row a line
from verify import source, statements  # noqa: E402

EVIDENCE = TOP / "docs" / "evidence" / "vllm.json"
CACHE = TOP / ".cache" / "vllm"


class Unavailable(Exception):
    """Nothing can be checked; the message says why in one line."""


def unearth(requirement, *options):
    """What the package index has for a requirement, as `unearth` prints it: a dict with version and local_path."""
    index = ["--index-url", os.environ["PIP_INDEX_URL"]] if os.environ.get("PIP_INDEX_URL") else []
    command = [sys.executable, "-m", "unearth", requirement, "--no-binary", "--python-version", "3.12", *index, *options]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired:
        raise Unavailable("The package index did not answer within 15 minutes.") from None
    if "No module named unearth" in run.stderr:
        raise Unavailable("unearth is missing: make verify-vllm installs it (or pip install --group verify).")
    if "No matches are found" in run.stdout + run.stderr:
        raise Unavailable(f"The package index has no source archive for {requirement}.")
    try:
        return json.loads(run.stdout)
    except ValueError:
        raise Unavailable(f"The package index gave no answer: {(run.stderr.strip() or 'unearth printed nothing').splitlines()[-1]}") from None


def fetch(version, cache=CACHE):
    """The path of a version's source archive, fetched unless it is there."""
    if not re.fullmatch(r"\d+(\.\w+)*", version):
        raise Unavailable(f"'{version}' is not a version: name one such as {statements.PINNED}, or newest.")
    path = cache / f"vllm-{version}.tar.gz"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            os.replace(unearth(f"vllm=={version}", "--download", folder)["local_path"], path)
    return path


def read(version, cache=CACHE):
    """(tree, what the evidence says about the archive) of a version."""
    path = fetch(version, cache)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if version == statements.PINNED and digest != statements.SHA256:
        raise Unavailable(f"{path} is not the archive that was read (its SHA-256 is {digest}). Delete it and try again.")
    try:
        tree = source.Tree.from_archive(path)
    except (tarfile.TarError, EOFError, OSError, zlib.error, UnicodeDecodeError) as error:
        raise Unavailable(f"{path} is damaged ({error}). Delete it and try again.") from None
    return tree, {"version": version, "archive": path.name, "sha256": digest}


def look(find, tree):
    """{file, line, found}, or {file: None, line: None, found: None, reason} where there is nothing to be found."""
    try:
        found = find(tree)
    except source.Missing as missing:
        return {"file": None, "line": None, "found": None, "reason": str(missing)}
    return {"file": found.file, "line": found.line, "found": plain(found.value)}


def plain(value):
    """A value as JSON gives it back."""
    return json.loads(json.dumps(value))


def holds(result, expected):
    return "reason" not in result and json.dumps(result["found"], sort_keys=True) == json.dumps(plain(expected), sort_keys=True)


def check(statement, tree):
    """A statement in the pinned version: {file, line, holds, found}."""
    result = look(statement.find, tree)
    return {**result, "holds": holds(result, statement.expected)}


def compare(statement, tree, before):
    """A statement in another version: {file, line, status: same, moved or changed, found}, and the sentence of a known change."""
    result = look(statement.find, tree)
    now = statement.now
    if not holds(result, statement.expected) and now:
        later = look(now.find or statement.find, tree)
        if now.expect is statements.AS_STATED and holds(later, statement.expected):
            result = later
        elif now.expect is not statements.AS_STATED and holds(later, now.expect):
            return {**later, "status": "changed", "en": now.en, "zh": now.zh}
    if not holds(result, statement.expected):
        return {**result, "status": "changed"}
    return {**result, "status": "same" if (result["file"], result["line"]) == (before["file"], before["line"]) else "moved"}


def is_news(result):
    """A change that no `now` explains."""
    return result.get("status") == "changed" and "en" not in result


def report(statement, result):
    """One line: what does not hold, where, and what is there instead."""
    place = f"{result['file']}:{result['line']}" if result["file"] else "not found"
    there = result.get("reason") or f"found {json.dumps(result['found'], ensure_ascii=False)}, expected {json.dumps(plain(statement.expected), ensure_ascii=False)}"
    return f"  {statement.id}: {statement.en} [{place}] {there}"


def verify(version, cache=CACHE):
    """Check one version, write nothing; returns the exit status."""
    tree, _ = read(version, cache)
    pinned = {s.id: {"file": None, "line": None} for s in statements.STATEMENTS}
    results = [(s, check(s, tree) if version == statements.PINNED else compare(s, tree, pinned[s.id])) for s in statements.STATEMENTS]
    wrong = [(s, r) for s, r in results if (not r["holds"] if "holds" in r else is_news(r))]
    known = [(s, r) for s, r in results if r.get("status") == "changed" and not is_news(r)]
    print(f"vLLM {version}: {len(results) - len(wrong) - len(known)} of {len(results)} statements hold, {len(known)} changed as noted, {len(wrong)} do not hold")
    for statement, result in wrong:
        print(report(statement, result), file=sys.stderr)
    return 1 if wrong else 0


def record(cache=CACHE, evidence=EVIDENCE):
    """Check the pinned version and the newest release and write the evidence; returns the exit status."""
    pinned, about_pinned = read(statements.PINNED, cache)
    newest = unearth("vllm")["version"]
    tree, about_newest = read(newest, cache)
    rows = []
    for statement in statements.STATEMENTS:
        before = check(statement, pinned)
        rows.append((statement, before, compare(statement, tree, before)))
    wrong = [(s, before) for s, before, _ in rows if not before["holds"]]
    if wrong:
        print(f"vLLM {statements.PINNED}: {len(wrong)} of {len(rows)} statements do not hold; {evidence.name} is left as it was", file=sys.stderr)
        for statement, result in wrong:
            print(report(statement, result), file=sys.stderr)
        return 1
    print(f"vLLM {statements.PINNED}: all {len(rows)} statements hold")
    count = {status: sum(after["status"] == status for _, _, after in rows) for status in ("same", "moved", "changed")}
    print(f"vLLM {newest}, the newest: " + ", ".join(f"{number} {status}" for status, number in count.items()))
    for statement, _, after in rows:
        if after["status"] == "changed":
            print(report(statement, after) if is_news(after) else f"  {statement.id}: {after['en']} [{after['file']}:{after['line']}]")
    if news := [s.id for s, _, after in rows if is_news(after)]:
        print(f"Not explained yet, give it a `now` in tools/verify/statements.py: {', '.join(news)}")
    evidence.parent.mkdir(parents=True, exist_ok=True)
    found = {
        "checked": datetime.date.today().isoformat(),
        "versions": {statements.PINNED: about_pinned, "newest": about_newest},
        "statements": [
            {"id": s.id, "topic": s.topic, "status": after["status"], "en": s.en, "zh": s.zh, statements.PINNED: before, "newest": after}
            for s, before, after in rows],
    }
    text = as_text({**found, "sha256": digest(found)})
    temporary = evidence.with_suffix(".tmp")
    temporary.write_text(text, "utf-8")
    os.replace(temporary, evidence)
    return 0


def digest(evidence):
    """sha256 of the evidence without its own line of it: a place or a date that somebody typed shows."""
    rest = {key: value for key, value in evidence.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, ensure_ascii=False, sort_keys=True).encode("utf-8")).hexdigest()


def main(arguments):
    try:
        if not arguments:
            return record()
        return verify(unearth("vllm")["version"] if arguments[0] == "newest" else arguments[0])
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
