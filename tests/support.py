"""What the tests share beside the tree (tools/tree.py): a quiet server, axe-core, the single files of the programs."""
import atexit
import functools
import http.server
import importlib.util
import json
import pathlib
import re
import shutil
import tempfile

import bundle
import pytest
import run as runner
from core import words
from tree import LANGUAGES, PAGES, SITE_URL, TOP, Tree, build, copied  # noqa: F401  the tests' names for the tree

SLOW = {"chromium", "chromium_with_gpu", "tree", "rehearsal"}   # what `make quick` leaves out: a browser, a copy of the tree to build, a clone to rehearse in
WORDS = words.load(TOP / "docs" / "words")   # {language: its words}: a test quotes none


def said(word, **values):
    """A pattern of the word as it is shown: what is filled in is this, or anything."""
    return re.sub(r"\\\{(\w+)\\\}", lambda slot: re.escape(str(values[slot[1]])) if slot[1] in values else ".*", re.escape(word.text))


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def violations(page, part):
    """What axe-core finds in a part of the page, in both themes."""
    axe = TOP / "node_modules/axe-core/axe.min.js"
    if not axe.is_file():
        pytest.fail("axe-core is not installed: `npm ci`")
    page.emulate_media(reduced_motion="reduce")   # colours that fade would be judged half-way
    page.evaluate(axe.read_text("utf-8"))   # as a script of the page its policy would refuse it
    found = []
    for scheme in ("default", "slate"):
        page.evaluate("scheme => { document.body.dataset.mdColorScheme = scheme }", scheme)
        found += page.evaluate("async (part) => (await axe.run(part, { resultTypes: ['violations'] })).violations.flatMap(v => v.nodes.map(n => `${v.id}: ${n.html.slice(0, 160)}: ${n.failureSummary}`))", part)
    page.evaluate("document.body.dataset.mdColorScheme = 'default'")
    return found


@functools.cache
def bundled(name):
    """The program examples/<name>.py as readers get it, as a module: the single file, with nothing beside it."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    path = pathlib.Path(folder) / f"{name}.py"
    path.write_text(bundle.bundle(TOP / "examples" / f"{name}.py"), "utf-8", newline="\n")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measured(lab, card="nvidia-h200"):
    """The committed result of a lab, with the values that follow from its rows."""
    result = json.loads((TOP / "examples/results" / card / f"{lab}.json").read_text("utf-8"))
    return {**result, "values": runner.strict(importlib.import_module(lab).values(result["rows"]))}
