"""What is derived in examples/exercises: skeletons from solutions, the common end of every grader. Run this file to write both again."""
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "examples" / "exercises"
NAMES = sorted(path.stem.removeprefix("grade_") for path in FOLDER.glob("grade_*.py"))
HOME = "online_row"                                   # its grader's common end is the one that is copied
ANSWER = re.compile(r"^( *)# answer\n(.*?)^ *# end of answer\n", re.S | re.M)
COMMON = "\n\n# From here on every grader is the same"


def source(name):
    return (FOLDER / f"{name}.py").read_text("utf-8")


def skeleton(text):
    """The solution without what stands between `# answer` and `# end of answer`."""
    return ANSWER.sub(r"\1raise NotImplementedError  # your code instead of this line\n", text)


def answer(text):
    """The lines that a skeleton lacks."""
    return [line.split("#")[0].strip() for match in ANSWER.finditer(text) for line in match[2].splitlines()]


def common(grader):
    return grader[grader.index(COMMON):]


def with_common(grader, end):
    return grader[: grader.index(COMMON)] + end


if __name__ == "__main__":
    for name in NAMES:
        (FOLDER / f"{name}_skeleton.py").write_text(skeleton(source(name)), "utf-8")
        (FOLDER / f"grade_{name}.py").write_text(with_common(source(f"grade_{name}"), common(source(f"grade_{HOME}"))), "utf-8")
