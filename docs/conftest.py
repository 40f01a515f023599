"""Code fences are run exactly as the site renders them: tools/fences.py hands them to pytest-markdown-docs."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))

import fences  # noqa: E402


def pytest_markdown_docs_markdown_it():
    return fences.Parser()
