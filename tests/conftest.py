"""What all tests share: one built site, one served site and one browser a worker, and a lock that gives the machine to a test that measures time.

`make test` runs workers (pytest-xdist): three on two cores, since browsers and servers wait much. While a test marked `alone` runs, the others wait.
"""
import collections
import contextlib
import fcntl
import functools
import http.server
import os
import sys
import threading

import browser
import pytest
from support import SLOW, TOP, QuietHandler, answering, build, copied

sys.dont_write_bytecode = True   # an edited file is never shadowed by its cache, and no folder that `serve` watches changes


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="of the tests that are named, those without a browser and without a build of their own")


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: it measures time, or waits for what another program does: no other test runs beside it")
    config.pluginmanager.register(Whole(config), "whole")
    if hasattr(config, "workerinput"):
        os.environ["OMP_NUM_THREADS"] = "1"   # one worker a core: torch's own threads would take the other worker's


def pytest_collection_modifyitems(config, items):
    """Those that run alone come last, so that the other worker waits once."""
    if config.option.quick:
        slow = [item for item in items if SLOW & set(getattr(item, "fixturenames", ())) or item.get_closest_marker("alone")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
    items.sort(key=lambda item: item.get_closest_marker("alone") is not None)


# Nothing is left out: what was collected has run, by whichever worker.

class Whole:
    def __init__(self, config):
        self.config, self.collected, self.ran = config, set(), set()

    def pytest_collection_finish(self, session):
        self.collected.update(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node, ids):
        self.collected.update(ids)

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown":
            self.ran.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session):
        left = sorted(self.collected - self.ran)
        stopped = session.shouldstop or session.shouldfail or session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        whole = not (hasattr(self.config, "workerinput") or self.config.option.collectonly or stopped)
        if whole and left:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self.left = left if whole else []

    def pytest_terminal_summary(self, terminalreporter):
        old = {kind: collections.Counter(report.wasxfail for report in terminalreporter.getreports(kind)) for kind in ("xpassed", "xfailed")}
        for said in sorted(set().union(*old.values())):
            terminalreporter.write_line(f"{said}: {old['xpassed'][said]} tests of its rows hold all the same, {old['xfailed'][said]} do not")
        if getattr(self, "left", None):
            terminalreporter.write_line(f"ERROR: collected and never run: {', '.join(self.left)}", red=True)
        elif self.collected and not self.config.option.collectonly:
            terminalreporter.write_line(f"{len(self.ran)} of {len(self.collected)} collected tests ran")


# Workers

def between_workers(config, name):
    """A file that all workers of this run see; None where there is one process."""
    if not hasattr(config, "workerinput"):
        return None
    return config._tmp_path_factory.getbasetemp().parent / name


@contextlib.contextmanager
def held(path, how):
    with path.open("w") as file:
        fcntl.flock(file, how)
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Tests share the machine; a test that is `alone` has it for itself. At the gate it also stops the next from the other worker."""
    if (path := between_workers(item.config, "machine.lock")) is None:
        return (yield)
    alone = item.get_closest_marker("alone") is not None
    with contextlib.ExitStack() as stack:
        with held(path.with_name("gate.lock"), fcntl.LOCK_EX):
            stack.enter_context(held(path, fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
        return (yield)


def built(config, factory, name, **options):
    """A folder with the site, built by the first worker that asks; nobody changes it."""
    lock = between_workers(config, "build.lock")   # one for all: builds of one tree share its .cache
    folder = lock.with_name(name) if lock else factory.mktemp(name) / "site"
    with held(lock, fcntl.LOCK_EX) if lock else contextlib.nullcontext():
        if not (folder / "index.html").is_file():
            run = build(TOP, folder, **options)
            assert run.returncode == 0, run.stdout
    return folder


@pytest.fixture(scope="session")
def site(request, tmp_path_factory):
    """The built site, published for SITE_URL."""
    return built(request.config, tmp_path_factory, "site")


@pytest.fixture(scope="session")
def site_without_address(request, tmp_path_factory):
    """The same without SITE_URL, as `make offline` and a reader's own build make it."""
    return built(request.config, tmp_path_factory, "plain", site_url="")


@pytest.fixture
def tree(request, tmp_path):
    """A copy of everything that a build reads, to be broken on purpose. `.build()` builds it."""
    if between_workers(request.config, ""):
        request.getfixturevalue("site")   # notebooks are rendered once, into the .cache that is copied
    return copied(tmp_path / "tree")


@pytest.fixture
def measured(request):
    """The committed result of the lab that the file tests."""
    return answering(request)


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
def playwright():
    if browser.find() is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium: `make browser` installs one")
        pytest.skip("no Chromium: `make browser` installs one")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as instance:
        yield instance


@pytest.fixture(scope="session")
def chromium(playwright):
    instance = browser.launch(playwright)
    yield instance
    instance.close()


@pytest.fixture(scope="session")
def chromium_with_gpu(playwright):
    """A browser whose GPU is software: what it computes is right, how long it takes means nothing."""
    instance = browser.launch(playwright, "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")
    yield instance
    instance.close()
