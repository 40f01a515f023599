"""A copy of the tree in which one edit at a time is made, judged and undone: what mutations.py and edits.py share."""
import concurrent.futures
import contextlib
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import tempfile

from tree import TOP
from warm import Warm

SECONDS = 300   # a check that takes longer has no verdict: nobody would wait for it
BUILD = "build"


def edit(text, old, new):
    """The text with `new` for the first `old`, a text or a compiled pattern."""
    return old.sub(new, text, count=1) if isinstance(old, re.Pattern) else text.replace(old, new, 1)


class Place:
    """The copy. Use it as a context: it holds a process."""

    def __init__(self, top):
        self.top, self.warm = top, Warm()
        subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", str(TOP), str(top)], check=True)
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=TOP, capture_output=True, text=True, check=True).stdout
        for name in filter(None, listed.split("\0")):
            if (TOP / name).is_file() and not (TOP / name).is_symlink():
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(TOP / name, top / name)
        for name in (".venv", "node_modules"):
            if (TOP / name).exists():
                (top / name).symlink_to(TOP / name)
        # Some tests clone the tree they stand in, some look up the commit that a result names.
        git = ["git", "-c", "user.name=mutations", "-c", "user.email=mutations@example.org"]
        (top / ".git/info/exclude").write_text(".venv\nnode_modules\n", "utf-8")   # a link is no folder to .gitignore
        subprocess.run([*git, "add", "--all"], cwd=top, check=True)
        subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "the tree as it is"], cwd=top, check=True)
        self.cached()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.warm.__exit__(*error)

    def cached(self):
        """The .cache of a tree that nobody edited: rendered notebooks, by their content."""
        shutil.rmtree(self.top / ".cache", ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            shutil.copytree(TOP / ".cache" / "notebooks", self.top / ".cache" / "notebooks")

    @contextlib.contextmanager
    def edited(self, edits):
        """The tree with these edits, (file, old, new) each: the first `old` of the file, a text or a compiled pattern. Raises LookupError when it is not there."""
        before = {}
        try:
            for file, old, new in edits:
                path = self.top / file
                if not path.is_file():
                    raise LookupError(f"there is no {file}")
                text = path.read_text("utf-8")
                before.setdefault(path, path.read_bytes())
                if (changed := edit(text, old, new)) == text:
                    raise LookupError(f"{file} has no {old!r}: mend the row")
                path.write_text(changed, "utf-8", newline="\n")
            yield
        finally:
            for path, data in before.items():
                path.write_bytes(data)
            self.cached()

    def run(self, *check, seconds=SECONDS):
        """(output, status) of a check, or of many nodes at once; status None: no end in time."""
        if check == (BUILD,):
            module, arguments = "mkdocs", ["build", "--strict", "--site-dir", self.top / "site"]
        else:
            module, arguments = "pytest", ["-p", "no:cacheprovider", "--tb=short", "-rfEs", *check]
        env = {**os.environ, "CI": "true", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1", "NO_MKDOCS_2_WARNING": "1", "SITE_URL": "", "COLUMNS": "200"}
        return self.warm.run(module, arguments, self.top, {name: value for name, value in env.items() if not name.startswith("PYTEST_")}, seconds)


def each(jobs, judge, processes=2):
    """judge(place, job) of every job, as they come: each job on a copy of the tree, so many at a time."""
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(processes) as pool:
        places = queue.Queue()
        for _ in range(processes):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="trials-", ignore_cleanup_errors=True))
            places.put(stack.enter_context(Place(pathlib.Path(folder))))

        def one(job):
            place = places.get()
            try:
                return judge(place, job)
            finally:
                places.put(place)

        for done in concurrent.futures.as_completed([pool.submit(one, job) for job in jobs]):
            yield done.result()


def chosen(rows, names, kind):
    """The rows of these names, all without names; None, and a line on stderr, where there is no such row."""
    if unknown := set(names) - {row.name for row in rows}:
        print(f"There is no {kind} {', '.join(sorted(unknown))}; --list names them.", file=sys.stderr)
        return None
    return [row for row in rows if not names or row.name in names]
