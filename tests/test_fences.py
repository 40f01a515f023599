"""Every Python fence of every page is run as rendered, or says why not: nothing is skipped in silence."""
import os
import re
import subprocess
import sys

import fences
import pytest
from support import LANGUAGES, TOP

PAGES = sorted(path for lang in LANGUAGES for path in (TOP / "docs" / lang).rglob("*.md"))


def name(path):
    return path.relative_to(TOP).as_posix()


def python(path):
    return [fence for fence in fences.rendered(path.read_text("utf-8")) if fence.language in ("python", "py", "python3")]


def test_run_plus_exempt_is_rendered(site):
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-qq", "--markdown-docs", *map(name, PAGES)],
        cwd=TOP, capture_output=True, text=True,
    ).stdout
    print("exempt from running:")
    for path in PAGES:
        page = path.relative_to(TOP / "docs").with_suffix("")
        folder = page.parent if page.name == "index" else page
        html = (site / folder / "index.html").read_text("utf-8")
        shown = len(re.findall(r'class="language-python[^"]*highlight', html))
        exempt = [fence for fence in python(path) if fence.reason]
        run = sum(int(count) for count in re.findall(rf"^{re.escape(name(path))}: (\d+)$", collected, re.M))
        assert run + len(exempt) == shown, f"{name(path)}: {run} run + {len(exempt)} exempt, but {shown} Python blocks are on the page"
        for fence in exempt:
            print(f"  {name(path)}:{fence.line}: {fence.reason}")
            assert re.search(rf'<p class="notest">[^<]*{re.escape(fence.reason)}', html), f"{name(path)}:{fence.line}: the page does not say why this is not run"


def test_a_plain_pytest_runs_the_pages(request):
    assert request.config.getini("testpaths") == ["tests", *(f"docs/{lang}" for lang in LANGUAGES)]
    assert "--markdown-docs" in request.config.getini("addopts")


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_an_exemption_gives_its_reason(path):
    for fence in python(path):
        assert fence.reason is None or len(fence.reason) >= 5, f"{name(path)}:{fence.line}: data-notest needs a reason that a reader understands"


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_a_fence_names_its_language_and_a_snippet_names_its_file(path):
    text = path.read_text("utf-8")
    for fence in fences.rendered(text):
        assert fence.language, f"{name(path)}:{fence.line}: name the language of this fence"
        assert fence.language in ("python", "bash", "text") or fence.language == "wgsl" and "--8<--" in "\n".join(text.splitlines()[fence.line : fence.line + 2]), f"{name(path)}:{fence.line}: nobody runs {fence.language}; sessions are a program and its output"
        opening = text.splitlines()[fence.line - 1]
        assert fence.language != "text" or ".no-copy" in opening, f"{name(path)}:{fence.line}: output is not to be copied: write {{.text .no-copy}}"
        body = text.splitlines()[fence.line:]
        end = next(i for i, line in enumerate(body) if line.strip().startswith("```"))
        sources = {match[1] for line in body[:end] if (match := re.match(r'\s*--8<-- "([^":]+)(?::[\w-]+)?"$', line))}
        if any("--8<--" in line for line in body[:end]):
            assert len(sources) == 1, f"{name(path)}:{fence.line}: one fence shows sections of one file"
            source = sources.pop()
            if source.endswith((".py", ".wgsl")):
                assert fence.title == source, f'{name(path)}:{fence.line}: give this fence title="{source}"'
    outside = re.sub(r"(?ms)^\s*```.*?^\s*```", "", text)
    assert "--8<--" not in outside, f"{name(path)}: a snippet stands outside a fence"


@pytest.mark.parametrize("page, found", [
    ('!!! note "n"\n\n    ```python\n    raise ValueError\n    ```\n', 1),
    ('=== "t"\n\n    ```python\n    x = 1\n    ```\n', 1),
    ('??? note "n"\n\n    ```{.python title="a.py"}\n    x = 1\n    ```\n', 1),
    ("- item\n\n    ```python\n    x = 1\n    ```\n", 1),
])
def test_fences_inside_containers_are_found(page, found):
    assert len(fences.rendered(page)) == found


def test_a_fence_that_is_not_rendered_is_an_error():
    with pytest.raises(ValueError, match="rendered"):
        fences.rendered("- item\n\n  ```python\n  x = 1\n  ```\n\n      ```python\n")


def test_a_raising_fence_fails(tmp_path):
    (tmp_path / "conftest.py").write_text((TOP / "docs/conftest.py").read_text("utf-8"), "utf-8")
    page = tmp_path / "page.md"
    page.write_text('!!! note "n"\n\n    ```python\n    raise ValueError("seen")\n    ```\n', "utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--markdown-docs", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(page)],
        cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(TOP / "tools")},
    )
    assert run.returncode == 1 and "seen" in run.stdout, run.stdout + run.stderr
