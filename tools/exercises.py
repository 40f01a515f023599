"""The exercises as the site serves them. Run this file with a folder to have them there: solutions, skeletons, graders."""
import pathlib
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TOP / "docs" / "hooks"))
from core.exercises import answer, served  # noqa: E402, F401
from core.words import load, plain  # noqa: E402

FOLDER = TOP / "examples" / "exercises"
WORDS = {lang: plain(words["graders"]) for lang, words in load(TOP / "docs" / "words").items()}
SERVED = {name.removeprefix("exercises/"): text for name, text in served(FOLDER, WORDS).items()}
NAMES = sorted(name.removeprefix("grade_").removesuffix(".py") for name in SERVED if name.startswith("grade_"))


def source(name):
    """The text of a served file: online_row, online_row_skeleton, grade_online_row."""
    return SERVED[f"{name}.py"]


def put(folder, *names):
    """Write served files into a folder."""
    for name in names or [file.removesuffix(".py") for file in SERVED]:
        (folder / f"{name}.py").write_bytes(source(name).encode("utf-8"))


if __name__ == "__main__":
    put(pathlib.Path(sys.argv[1]))
