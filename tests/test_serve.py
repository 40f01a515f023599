"""What a server shows after an edit is what a clean build gives, byte for byte, and what has not changed is not made again."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from support import SITE_URL, copied

# A process that builds again and again, as `mkdocs serve` does: a folder comes in, what the build cost goes out.
WARM = """
import json, logging, sys, time
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

said = []
handler = logging.Handler()
handler.emit = lambda record: said.append(record.getMessage())
logging.getLogger("mkdocs").addHandler(handler)
logging.getLogger("mkdocs").setLevel(logging.INFO)
for number, line in enumerate(sys.stdin):
    said.clear()
    started, failed = time.process_time(), None
    config = load_config("mkdocs.yml", strict=True, site_dir=line.strip())
    if not number:
        config.plugins.on_startup(command="build", dirty=False)
    try:
        build(config)
    except Abort as error:
        failed = str(error)
    print(json.dumps({"seconds": time.process_time() - started, "failed": failed, "said": said}), flush=True)
"""


class Warm:
    def __init__(self, top):
        self.top = top
        self.process = subprocess.Popen([sys.executable, "-c", WARM], cwd=top, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env={**os.environ, "SITE_URL": SITE_URL, "NO_MKDOCS_2_WARNING": "1", "PYTHONUTF8": "1"})

    def build(self, to):
        self.process.stdin.write(f"{to}\n")
        self.process.stdin.flush()
        done = json.loads(self.process.stdout.readline())
        steps = [found for line in done["said"] if (found := re.search(r"made anew: (\d+) of (\d+)", line))]
        return done | ({"made": int(steps[-1][1]), "of": int(steps[-1][2])} if steps else {})

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A tree that has been built, and the process that did."""
    tree = copied(tmp_path_factory.mktemp("served") / "tree")
    made = Warm(tree.top)
    first = made.build(tree.out)
    assert not first["failed"], first["said"]
    yield tree, made
    made.stop()


def append(path, text):
    path.write_text(path.read_text("utf-8") + text, "utf-8")


def change(path, pattern, new):
    text = path.read_text("utf-8")
    assert re.search(pattern, text, re.M), f"{path.name} has no {pattern}"
    path.write_text(re.sub(pattern, new, text, count=1, flags=re.M), "utf-8")


def first(top, pattern):
    return sorted(top.glob(pattern))[0]


EDITS = {   # edits that do not heal each other stand together: one clean build for each group
    "pages and data": {
        "sentence": lambda top: append(top / "docs/en/lesson.md", "\nOne more sentence, with $x_1$ and softmax.\n"),
        "heading": lambda top: change(top / "docs/zh/roofline.md", r"^## .*\{", "## 换个说法 {"),
        "claim": lambda top: change(top / "docs/en/decode.md", r"^([A-Z][^|`{<\n]{80,})$", r"In other words: \1"),
        "table header": lambda top: change(top / "docs/en/backward.md", r"^\| ([^|\n]+) \|(.*)\n\|[-:| ]+$", lambda found: found[0].replace(found[1], f"so called {found[1]}", 1)),
        "front matter": lambda top: change(top / "docs/zh/vllm.md", r"^description: ", "description: 新的"),
        "glossary": lambda top: change(top / "docs/zh/glossary.md", r"^(## .*\n\n)", r"\1换句话说，"),
        "navigation": lambda top: change(top / "mkdocs.en.yml", r"- ([^:\n]+): lesson.md", "- Another name: lesson.md"),
        "quiz": lambda top: change(top / "docs/quiz/lesson.yml", r"^  en: (.)", r"  en: Well, \1"),
        "exercise": lambda top: append(first(top, "examples/exercises/*/solution.py"), "\n# A word more.\n"),
        "lab comment": lambda top: append(top / "examples/decode_attention.py", "\n# A word more.\n"),
        "drawing": lambda top: change(first(top, "docs/theme/drawings/*.svg"), r"(<text\b[^>]*>)\{\{", r"\1· {{"),
        "result": lambda top: change(top / "examples/results/nvidia-h200/decode_attention.json", r'"torch": "', '"torch": "9.9.'),
    },
    "code and words": {
        "hook": lambda top: change(top / "docs/hooks/core/html.py", '" download>', '" download data-edited>'),
        "style": lambda top: append(top / "docs/theme/css/site.css", "\n.edited { color: red; }\n"),
        "template": lambda top: append(top / "docs/theme/partials/alternate.html", "<!-- edited -->\n"),
        "words": lambda top: [change(path, r'^( +title: "?)', r"\1Once more, ") for path in top.glob("docs/words/*.yml")],
    },
}


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("group", EDITS)
def test_after_every_kind_of_edit_the_served_site_is_a_clean_build(warm, group, tmp_path):
    tree, server = warm
    for kind, edit in EDITS[group].items():
        edit(tree.top)
        done = server.build(tree.out)
        assert not done["failed"], (kind, done["said"])
        assert done["made"] or kind == "style", f"{kind}: nothing was made anew"
    clean = tmp_path / "clean"
    shutil.copytree(tree.top, clean, symlinks=True, ignore=lambda folder, names: [name for name in names if name == ".cache" or pathlib.Path(folder) == tree.top and name == "site"])
    fresh = Warm(clean)
    try:
        done = fresh.build(tmp_path / "site")
    finally:
        fresh.stop()
    assert not done["failed"] and done["made"] == done["of"], "the clean build found something made"
    served, right = files(tree.out), files(tmp_path / "site")
    assert served.keys() == right.keys()
    assert not [name for name in right if served[name] != right[name]]


def test_a_sentence_renders_its_page_alone_and_soon(warm):
    tree, server = warm
    server.build(tree.out)
    assert server.build(tree.out)["made"] == 0, "what has not changed was made again"
    append(tree.path("docs/en/roofline.md"), "\nA sentence that nobody has read.\n")
    done = server.build(tree.out)
    assert "that nobody has read" in tree.page("en/roofline/index.html")
    assert 0 < done["made"] <= 5, "Markdown, placeholders, formulas, search and theme of one page"
    assert done["seconds"] < 2, f"{done['seconds']:.1f} s of CPU"


@pytest.mark.parametrize("link", ["nowhere.md", "lesson.md#nowhere"])
def test_what_a_page_was_warned_of_is_told_at_each_build(warm, link):
    tree, server = warm
    page = tree.path("docs/en/roofline.md")
    good = page.read_text("utf-8")
    append(page, f"\n[A link]({link})\n")
    try:
        for _ in range(2):
            done = server.build(tree.out)
            assert done["failed"] and any(link in line for line in done["said"])
    finally:
        page.write_text(good, "utf-8")
    assert not server.build(tree.out)["failed"]
