"""The archives: equal to the files they pack, equal when packed again; the examples run where they are unpacked; the site works from them offline."""
import functools
import http.server
import io
import os
import re
import subprocess
import sys
import threading
import zipfile

import bundle
import pytest
from core import archive, results
from support import LANGUAGES, QuietHandler, TOP, WORDS

EXAMPLES = TOP / "examples"
NAME = "downloads/flash-attention-examples.zip"


@pytest.fixture(scope="module")
def unpacked(site, tmp_path_factory):
    """The examples' archive of the built site, unpacked in an empty folder; beside it a `torch` that is not there."""
    top = tmp_path_factory.mktemp("bare")
    with zipfile.ZipFile(site / NAME) as archive_file:
        archive_file.extractall(top)
    (top / "none").mkdir()
    (top / "none" / "torch.py").write_text("raise ImportError('no torch here')")
    return top / "flash-attention-examples"


def run(folder, *command, torch=False):
    env = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}
    env |= {} if torch else {"PYTHONPATH": str(folder.parent / "none")}
    return subprocess.run([sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True, timeout=120)


def test_the_archive_holds_the_files_and_nothing_else(unpacked):
    packed = {path.relative_to(unpacked).as_posix(): path.read_bytes() for path in unpacked.rglob("*") if path.is_file()}
    assert packed.pop("LICENSE") == (TOP / "LICENSE").read_bytes()
    programs = {name: text.encode("utf-8") for name, text in bundle.published().items()}
    data = [EXAMPLES / "README.md", EXAMPLES / "results/schema.json", *EXAMPLES.glob("outputs/*.txt"), *results.files(EXAMPLES / "results")]
    assert packed == programs | {path.relative_to(EXAMPLES).as_posix(): path.read_bytes() for path in data}


def test_packed_again_it_is_the_same_whatever_the_order_and_the_clock():
    files = {"b.txt": b"b" * 1000, "a/a.txt": "字".encode()}
    one = archive.pack(files, "top")
    assert one == archive.pack(dict(reversed(files.items())), "top")
    with zipfile.ZipFile(io.BytesIO(one)) as packed:
        assert packed.namelist() == ["top/a/a.txt", "top/b.txt"]
        assert {entry.date_time for entry in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.external_attr >> 16 for entry in packed.infolist()} == {0o100644}


def commands():
    """The commands in the README's fences, fence by fence."""
    return [[line.split()[1:] for line in fence.splitlines()] for fence in re.findall(r"```bash\n(.*?)```", (EXAMPLES / "README.md").read_text("utf-8"), re.S)]


def test_the_readme_of_the_archive_speaks_both_languages_and_has_the_commands():
    text = (EXAMPLES / "README.md").read_text("utf-8")
    assert [bool(re.search("[\u4e00-\u9fff]", title)) for title in re.findall(r"^# (.+)$", re.sub(r"(?ms)^```.*?^```$", "", text), re.M)] == [False, True]
    assert [len(fence) for fence in commands()] == [5, 5, 1]


@pytest.mark.parametrize("command", commands()[0], ids=" ".join)
def test_what_needs_nothing_runs_without_pytorch_and_prints_its_output(unpacked, command):
    done = run(unpacked, *command)
    assert done.returncode == 0, done.stderr
    name = command[0].removesuffix(".py") + ("-predict" if "--predict" in command else "")
    assert done.stdout == (unpacked / "outputs" / f"{name}.txt").read_text("utf-8")


@pytest.mark.parametrize("command", commands()[1], ids=" ".join)
def test_what_measures_says_in_one_line_that_pytorch_is_missing(unpacked, command):
    done = run(unpacked, *command)
    if "--list" in command:
        assert done.returncode == 0 and "flash_vs_naive_memory" in done.stdout.split()
    else:
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "PyTorch is missing" in done.stderr


def test_results_are_compared_without_pytorch(unpacked):
    (tool, word, ours, mine), = commands()[2]
    assert (tool, word, mine) == ("run.py", "compare", "mine")
    assert run(unpacked, tool, word, ours, "mine").returncode == 2
    done = run(unpacked, tool, word, ours, ours)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["rescale_rules.py", "pitfalls/no_rescale.py"])
def test_programs_run_alone_beside_pytorch_on_a_cpu(unpacked, name):
    done = run(unpacked, name, torch=True)
    assert done.returncode == 0 and done.stdout == (unpacked / "outputs" / (name.replace("/", "-").replace(".py", ".txt"))).read_text("utf-8")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_page_links_the_archive(site, lang):
    assert 'href="../../downloads/flash-attention-examples.zip"' in (site / lang / "measured/index.html").read_text("utf-8")


# The whole site, offline

@pytest.fixture(scope="module")
def offline(site_without_address, tmp_path_factory):
    """(folder, archive) of the site as `make offline` makes it, unpacked."""
    top = tmp_path_factory.mktemp("offline")
    packed = subprocess.run([sys.executable, str(TOP / "docs/hooks/core/archive.py"), str(site_without_address), str(top / "dist" / "site.zip")], capture_output=True, text=True)
    assert packed.returncode == 0 and "MiB" in packed.stdout, packed.stderr
    with zipfile.ZipFile(top / "dist" / "site.zip") as archive_file:
        archive_file.extractall(top / "unpacked")
    return top / "unpacked" / "site", top / "dist" / "site.zip"


def test_packed_again_the_offline_archive_is_the_same(offline, site_without_address):
    """Built again it is too: test_reproducible.py."""
    assert archive.pack(archive.site(site_without_address, WORDS), "site") == offline[1].read_bytes()


def test_the_offline_archive_is_small_enough_to_hand_on_and_says_how_to_open_it(offline):
    folder, packed = offline
    assert packed.stat().st_size < 25 * 2**20
    text = (folder / "README.txt").read_text("utf-8")
    assert "http.server" in text and all(words.archive.text in text for words in WORDS.values())


@pytest.fixture
def page(chromium, offline):
    """A page of the unpacked site on a plain file server; every other address is refused."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(offline[0])))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_port}/"
    context = chromium.new_context(proxy={"server": "http://127.0.0.1:9", "bypass": "127.0.0.1"}, locale="en-US")
    page = context.new_page()
    page.root, page.problems = root, []
    page.on("console", lambda m: m.type in ("error", "warning") and page.problems.append(f"{m.type}: {m.text}"))
    page.on("pageerror", lambda e: page.problems.append(str(e)))
    page.on("requestfailed", lambda r: page.problems.append(f"failed: {r.url}"))
    page.on("request", lambda r: r.url.startswith((root, "data:", "blob:")) or page.problems.append(f"foreign: {r.url}"))
    yield page
    assert not page.problems, page.problems
    context.close()
    server.shutdown()


@pytest.mark.parametrize("lang, query, other", [("en", "softmax", "zh"), ("zh", "显存", "en")])
def test_the_site_works_from_the_archive_with_the_network_refused(page, lang, query, other):
    page.goto(page.root + f"{lang}/measured/", wait_until="networkidle")
    assert page.evaluate("document.fonts.ready.then(() => [...document.styleSheets].length)") >= 3
    page.locator(".md-content table").first.wait_for()
    with page.expect_download() as download:
        page.click('a[href$="flash-attention-examples.zip"]')
    assert zipfile.is_zipfile(download.value.path())
    page.goto(page.root + f"{lang}/lesson/", wait_until="networkidle")
    assert page.locator(".katex-mathml").count() > 20
    page.fill(".md-search__input", query)
    page.locator(".md-search-result__link").first.wait_for(timeout=15000)
    page.goto("about:blank")   # a reader who comes by the address; a page that is open already scrolls before what is laid out late has its height
    page.goto(page.root + f"{lang}/lesson/#lab", wait_until="networkidle")
    page.wait_for_function("() => { const { top } = document.getElementById('lab').getBoundingClientRect(); return top >= 0 && top < 200; }")
    page.click(f"a[data-language={other}]")
    page.wait_for_url(page.root + f"{other}/lesson/#lab")


# The archive published with the site

def test_the_home_page_offers_the_archive_that_the_build_is_given_and_no_other(site, tree):
    for lang in LANGUAGES:
        assert "flash-attention-offline.zip" not in (site / lang / "index.html").read_text("utf-8")
    assert not (site / "downloads/flash-attention-offline.zip").exists()
    refused = tree.build(OFFLINE="dist/none.zip")
    assert refused.returncode != 0 and "OFFLINE names dist/none.zip" in refused.stdout and "make offline" in refused.stdout
    tree.path("dist").mkdir()
    tree.path("dist/a.zip").write_bytes(b"x" * (3 * 2**20))
    done = tree.build(OFFLINE="dist/a.zip")
    assert done.returncode == 0, done.stdout
    assert (tree.out / "downloads/flash-attention-offline.zip").read_bytes() == b"x" * (3 * 2**20)
    for lang, size in {"en": "(zip, 3 MiB)", "zh": "（zip，3 MiB）"}.items():
        page = tree.page(f"{lang}/index.html")
        assert 'href="../downloads/flash-attention-offline.zip" download' in page and size in page.replace("\N{NO-BREAK SPACE}", " ")
        assert "offline.zip" not in tree.page(f"{lang}/lesson/index.html")
