"""What the tests share beside the tree (tools/tree.py): a quiet server, axe-core, the single files of the programs."""
import atexit
import functools
import http.server
import importlib.util
import pathlib
import re
import shutil
import tempfile
import types

import bundle
import pytest
from core import results, words
from tree import LANGUAGES, PAGES, SITE_URL, TOP, Tree, build, copied, warmed  # noqa: F401  the tests' names for the tree

SLOW = {"chromium", "chromium_with_gpu", "tree", "rehearsal"}   # what `make quick` leaves out: a browser, a copy of the tree to build, a clone to rehearse in
WORDS = words.load(TOP / "docs" / "words")   # {language: its words}: a test quotes none


def said(word, **values):
    """A pattern of the word as it is shown: what is filled in is this, or anything."""
    return re.sub(r"\\\{(\w+)\\\}", lambda slot: re.escape(str(values[slot[1]])) if slot[1] in values else ".*", re.escape(word.text))


def tells(error, what):
    """Whether a refusal names the argument and the numbers of `what`, in whatever words."""
    said = str(getattr(error, "value", error))
    return said.startswith(what.split()[0]) and not [word for word in re.findall(r"torch\.\w+|(?<![\w.])-?\d+", what) if word not in said]


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


# The shade at the edge of what scrolls: axe judges no text on a picture.
UNSHADE = "document.querySelectorAll('article *').forEach((e) => { if (getComputedStyle(e).backgroundAttachment.startsWith('local')) e.style.backgroundImage = 'none'; })"


def violations(page, part):
    """What axe-core finds in a part of the page, in both themes."""
    axe = TOP / "node_modules/axe-core/axe.min.js"
    if not axe.is_file():
        pytest.fail("axe-core is not installed: `npm ci`")
    page.emulate_media(reduced_motion="reduce")   # colours that fade would be judged half-way
    page.evaluate(axe.read_text("utf-8"))   # as a script of the page its policy would refuse it
    page.evaluate(UNSHADE)
    found = []
    for scheme in ("default", "slate"):
        page.evaluate("scheme => { document.body.dataset.mdColorScheme = scheme }", scheme)
        found += page.evaluate("async (part) => (await axe.run(part, { resultTypes: ['violations'] })).violations.flatMap(v => v.nodes.map(n => `${v.id}: ${n.html.slice(0, 160)}: ${n.failureSummary}`))", part)
    page.evaluate("document.body.dataset.mdColorScheme = 'default'")
    return found


@pytest.fixture(autouse=True)
def one_thread():
    """For a file of tests that imports it: torch's own threads would take the other worker's core."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def mutant(name, old, new):
    """The module examples/<name>.py with one piece of its text replaced."""
    source = (TOP / f"examples/{name}.py").read_text("utf-8")
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {name}.py: adapt the mutation"
    module = types.ModuleType("mutant")
    exec(compile(source.replace(old, new), f"mutant of {name}.py", "exec"), module.__dict__)
    return module


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


@functools.cache
def measured(lab, card="nvidia-h200"):
    """The committed result of a lab as pages have it: with its values, and `stale` where the program measures something else by now."""
    program, path = TOP / f"examples/{lab}.py", TOP / "examples/results" / card / f"{lab}.json"
    result = results.strict_json(path.read_text("utf-8"))
    results.Lab(lab, bundle.bundle(program), program).complete(result, path.name)
    return result


def answering(request):
    """The result of the lab that a test file is of. Its rows answer for the program that measured them: where that is another by now, a test of
    them that fails is told in the summary and is no failure, as pages say 'measured before the last change'."""
    lab = request.module.__name__.removeprefix("test_")
    if (result := measured(lab))["stale"]:
        request.applymarker(pytest.mark.xfail(reason=f"{lab} was measured before the last change of its program", strict=False))
    return result
