import functools
import http.server
import os
import sys
import threading

import browser
import pytest
from support import TOP, QuietHandler, build, copied

sys.dont_write_bytecode = True   # an edited file is never shadowed by its cache, and no folder that `serve` watches changes


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The built site, published for SITE_URL."""
    folder = tmp_path_factory.mktemp("site")
    run = build(TOP, folder)
    assert run.returncode == 0, run.stdout
    return folder


@pytest.fixture
def tree(tmp_path):
    """A copy of everything that a build reads, to be broken on purpose. `.build()` builds it."""
    return copied(tmp_path / "tree")


@pytest.fixture(scope="session")
def served(site, tmp_path_factory):
    """Address of the built site on another host, port and path than SITE_URL. SITE_URL's own path leads to the site too."""
    top = tmp_path_factory.mktemp("host")
    (top / "repo").symlink_to(site)
    (top / "elsewhere").mkdir()
    (top / "elsewhere" / "deep").symlink_to(site)
    handler = functools.partial(QuietHandler, directory=str(top))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/elsewhere/deep/"
    server.shutdown()


@pytest.fixture(scope="session")
def chromium():
    if browser.find() is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium: `make browser` installs one")
        pytest.skip("no Chromium: `make browser` installs one")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        instance = browser.launch(playwright)
        yield instance
        instance.close()
