"""A lab stands alone, so helpers are copied. Functions and classes of one name in several files of examples/ are one text, byte by byte.

The names in OWN may differ, each for the reason beside it, and in those of APART one file has its own and the others are copies.
A name that no longer differs has to leave its list.
"""

import ast
import collections
import pathlib

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"

INTERFACE = "every lab has one, about its own rows"
OWN = {
    "check": INTERFACE, "measure": INTERFACE, "values": INTERFACE, "header": INTERFACE, "line": INTERFACE, "footer": INTERFACE,
    "main": "every file has its own command line", "report": "prints a row of one line, or one of several or none",
    "cases": "each lab has its own cases", "row_of": "each lab has its own columns", "default_row": "each lab has its own columns",
    "predicted": "memory of the forward pass, and of both passes", "predicted_table": "each lab predicts its own quantities",
    "backend_of": "from a list of names, and from one text; the backward pass has kernels of other names",
    "exact": "head by head on the dispatcher's masks, in fp64 for a check of 16 bits, and on lists of Python's numbers",
    "exact_attention": "lists of Python's numbers in both, of different shapes",
    "bound": "an error bound, each of its own algorithm", "check_cases": "each file checks its own cases", "check_input": "each file takes its own arguments",
    "largest_error": "of a polynomial, and of attention", "scores": "a row of numbers, and a tile of a tensor",
}
APART = {
    "stop": ("run.py", "it has more than one exit status"),
    "reference": ("tiled_attention.py", "it allows S_q other than S_kv and gives the LSE, by SDPA's math path, which the GPU labs measure"),
}


def definitions():
    """{name: {text: [files]}} of all functions and classes at the top of the files of examples/."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for path in sorted(EXAMPLES.glob("*.py")):
        text = path.read_text("utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                decorators = [ast.get_source_segment(text, decorator) for decorator in node.decorator_list]
                found[node.name]["\n".join([*decorators, ast.get_source_segment(text, node)])].append(path.name)
    return found


FOUND = definitions()
SHARED = sorted(name for name, texts in FOUND.items() if sum(map(len, texts.values())) > 1)


@pytest.mark.parametrize("name", [name for name in SHARED if name not in OWN])
def test_copies_are_equal(name):
    alone = APART.get(name, ("",))[0]
    groups = sorted(files for files in FOUND[name].values() if files != [alone])
    assert len(groups) == 1, f"{name}() differs between {' and '.join(', '.join(files) for files in groups)}: copy it from its home, or give it another name"


@pytest.mark.parametrize("name", [*OWN, *APART])
def test_what_may_differ_does(name):
    assert len(FOUND[name]) > 1, f"{name} no longer differs between files: take it off the list"


def test_the_helpers_of_the_labs_are_among_the_copies():
    assert {"attempt", "release", "which_kernel", "kernels_of", "short", "once", "gpu_problem", "timed", "naive", "flash", "inputs", "reference"} <= set(SHARED) - set(OWN)
