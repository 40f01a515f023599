"""examples/pitfalls: each file shows what goes wrong and what is right, notices when the two are exchanged, and stands on the page."""
import importlib.util
import json
import re
import subprocess
import sys

import outputs
import pytest
from support import LANGUAGES, TOP, measured

FOLDER = TOP / "examples/pitfalls"
FILES = sorted(FOLDER.glob("*.py"))
PAGES = {lang: (TOP / "docs" / lang / "pitfalls.md").read_text("utf-8") for lang in LANGUAGES}


def load(path, source=None):
    """The module at `path`, or one with another source in its place."""
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(f"pitfall_{path.stem}", loader=None))
    exec(compile(source or path.read_text("utf-8"), str(path), "exec", optimize=1), module.__dict__)          # as under python -O, which drops what is asserted
    return module


def stem(path):
    return path.stem


def test_there_are_at_least_twelve():
    assert len(FILES) >= 12


@pytest.mark.parametrize("path", FILES, ids=stem)
def test_the_check_passes_and_notices_an_exchange(path):
    module = load(path)
    module.check()
    for pair in [(module.right, module.wrong), (module.right, module.right), (module.wrong, module.wrong)]:
        with pytest.raises(AssertionError):
            module.check(*pair)


@pytest.mark.parametrize("path", FILES, ids=stem)
def test_a_file_whose_halves_are_exchanged_fails(path):
    source = path.read_text("utf-8")
    swapped = re.sub(r"^def (wrong|right)\(", lambda m: f"def {'right' if m[1] == 'wrong' else 'wrong'}(", source, flags=re.M)
    assert swapped != source
    with pytest.raises(AssertionError):
        load(path, swapped).check()


@pytest.mark.parametrize("path", FILES, ids=stem)
def test_the_file_runs_alone_and_its_output_is_up_to_date(path, tmp_path):
    (tmp_path / path.name).write_bytes(path.read_bytes())
    run = subprocess.run([sys.executable, path.name], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=outputs_env())
    assert run.returncode == 0, run.stderr
    name = f"pitfalls-{path.stem}.txt"
    assert name in outputs.COMMANDS
    assert run.stdout == (TOP / "examples/outputs" / name).read_text("utf-8"), "run `make outputs` and look at what changed"
    assert run.stdout.isascii() and max(map(len, run.stdout.splitlines())) <= 90


def outputs_env():
    import os

    return {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONUTF8": "1"}


def test_no_output_is_left_without_its_file():
    left = {path.name for path in (TOP / "examples/outputs").glob("pitfalls-*.txt")}
    assert left == {f"pitfalls-{path.stem}.txt" for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=stem)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_page_shows_the_file(path, lang):
    page, anchor = PAGES[lang], path.stem.replace("_", "-")
    heading = re.search(rf"^### .* \{{ #{anchor} \}}$", page, re.M)
    assert heading, f"docs/{lang}/pitfalls.md has no heading with the id {anchor}"
    entry = re.split(r"^##", page[heading.end():], maxsplit=1, flags=re.M)[0]
    shown = re.findall(r'--8<-- "([^"]+)"', entry)
    expected = [f"pitfalls/{path.name}:wrong", f"outputs/pitfalls-{path.stem}.txt", f"pitfalls/{path.name}:right"]
    assert [name for name in shown if name in expected] == expected, f"{lang}#{anchor} shows {shown}"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_page_shows_no_file_that_is_not_there(lang):
    shown = set(re.findall(r'--8<-- "pitfalls/(\w+)\.py', PAGES[lang]))
    assert shown == {path.stem for path in FILES}


def test_timing_on_a_gpu_refuses_without_one():
    run = subprocess.run([sys.executable, FOLDER / "timing.py", "--cuda"], capture_output=True, text=True, env=outputs_env(), timeout=60)
    assert run.returncode == 2 and run.stdout == ""
    assert len(run.stderr.splitlines()) == 1 and "needs PyTorch with a CUDA GPU" in run.stderr


def test_gpu_pages_name_the_torch_that_measured():
    for lab in ("decode_attention", "sdpa_dispatch", "flash_vs_naive_memory", "attention_roofline", "attention_error", "flash_backward"):
        assert measured(lab)["software"]["torch"].startswith("2.11.0"), "docs/*/pitfalls.md and interview.md name PyTorch 2.11"
