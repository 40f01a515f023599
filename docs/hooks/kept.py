"""Results of slow steps, kept by the hash of all that they are made of: in memory for the next build of a server, in a folder for the next process.

A key holds every input: the texts, the settings, the code (`code`) and what is installed. So an edit finds nothing that it made untrue, and
a build with an empty folder gives the same bytes. What a step returns is pickled, so each build has a copy of its own.
"""
import hashlib
import os
import pathlib
import pickle
import sys
import time

import mkdocs

HOUR = 3600   # what no build has used for so long leaves the folder


def code(*paths):
    """A hash of files and of the Python files of folders, by name and content."""
    files = [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    return digest(*(f"{file.name}\0{file.read_text('utf-8')}" for file in files if file.is_file()))


def folders(*paths):
    """A hash of all files of folders, by their place and bytes."""
    files = [(path.name, file.relative_to(path).as_posix(), file) for path in paths for file in sorted(path.rglob("*")) if file.is_file() and "__pycache__" not in file.parts]
    return digest(*((folder, name, hashlib.sha256(file.read_bytes()).hexdigest()) for folder, name, file in files))


def installed():
    """Python and every package that stands beside MkDocs, with its version."""
    return digest(sys.version, *sorted(path.name for path in pathlib.Path(mkdocs.__file__).parents[1].glob("*.dist-info")))


def digest(*parts):
    """A hash of texts; of anything else its repr, which must say all."""
    made = hashlib.sha256()
    for part in parts:
        data = (part if isinstance(part, str) else repr(part)).encode("utf-8", "surrogatepass")
        made.update(b"%d:" % len(data) + data)
    return made.hexdigest()


class Kept:
    """`kept(make, *parts)` is make(), made once for the same parts; made again where `unless()` was true behind it."""

    def __init__(self, folder):
        self.folder, self.memory, self.used, self.made = folder, {}, set(), 0

    def __call__(self, make, *parts, unless=lambda: False):
        name = digest(*parts)
        self.used.add(name)
        data = self.memory.get(name) or self._read(name)
        if data is None:
            made = make()
            self.made += 1
            if unless():
                return made
            self._write(name, data := pickle.dumps(made))
        self.memory[name] = data
        return pickle.loads(data)

    def end(self):
        """A build is over: what it did not use leaves the memory, and what none has used for an hour leaves the folder."""
        self.memory = {name: data for name, data in self.memory.items() if name in self.used}
        for path in self.folder.glob("*") if self.folder.is_dir() else []:
            try:
                if path.name not in self.used and time.time() - path.stat().st_mtime > HOUR:
                    path.unlink()
            except OSError:
                pass   # another build was faster
        self.used, self.made = set(), 0

    def _read(self, name):
        """The bytes, checked: a file that another process left half written counts as none."""
        try:
            data = (self.folder / name).read_bytes()
            os.utime(self.folder / name)
        except OSError:
            return None
        return data[32:] if hashlib.sha256(data[32:]).digest() == data[:32] else None

    def _write(self, name, data):
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{name}.{os.getpid()}"
        part.write_bytes(hashlib.sha256(data).digest() + data)
        part.replace(self.folder / name)
