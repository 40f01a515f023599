"""What the tests share beside the tree (tools/tree.py): a quiet server, axe-core."""
import http.server

import pytest
from tree import LANGUAGES, PAGES, SITE_URL, TOP, Tree, build, copied  # noqa: F401  the tests' names for the tree


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
