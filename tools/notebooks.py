"""Runs the labs' notebooks on a GPU; the site's build makes the notebooks themselves (docs/hooks/core/cells.py).

    python tools/notebooks.py run --to DIR [LAB…]  execute on this machine's GPU (needs torch, nbclient, ipykernel, jsonschema)
    python tools/notebooks.py make --to DIR        write the notebooks as the site has them: DIR/<lang>/<lab>.ipynb
    python tools/notebooks.py take DIR             put what was run into examples/results

DIR gets what the cells gave, <gpu>/<lab>.cells.json, and each executed notebook, to look at.
"""
import argparse
import importlib.util
import json
import pathlib
import re
import shutil
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TOP / "docs" / "hooks"), str(TOP / "tools")]
sys.path.append(str(TOP / "examples"))                     # for run.py and the kit
import bundle  # noqa: E402
import run as runner  # noqa: E402
from core import cells  # noqa: E402
from core.errors import PageError  # noqa: E402
from core.words import languages, load  # noqa: E402

NONE = {"ring_attention": "it needs several GPUs and starts a process on each",
        "whole_model": "its weights are larger than the card of a free notebook",
        "batch_invariance": "its page shows every kind of row", "mask_savings": "it needs a C compiler and a minute of compiling"}


def labs():
    """{name: path} of the labs that have a notebook: all but NONE."""
    return {name: path for name, path in runner.find_labs(TOP / "examples").items() if name not in NONE}


def make(lab, lang, run=None):
    """The notebook of a lab, as the site's build makes it."""
    pages = {path.name: path.read_text("utf-8") for path in (TOP / "docs" / lang).glob("*.md")}
    return cells.make(lab, lang, bundle.published(TOP / "examples"), load(TOP / "docs" / "words")[lang], pages, run)


# The run.

def execute(notebook, folder, timeout=400):
    """Run a notebook in `folder`; returns it with outputs. Raises PageError with the last line of a cell's error; what was run is in error.notebook."""
    import nbclient
    import nbformat

    node = nbformat.reads(json.dumps(notebook), as_version=4)
    client = nbclient.NotebookClient(node, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": str(folder)}},
                                     record_timing=False, coalesce_streams=True)
    try:
        client.execute()
    except Exception as error:
        raised = PageError((str(error).strip().splitlines() or ["no message"])[-1])
        raised.notebook = json.loads(nbformat.writes(node))
        raise raised from None
    done = json.loads(nbformat.writes(node))
    for cell, before in zip(done["cells"], notebook["cells"]):
        cell["metadata"] = before["metadata"]
        for output in cell.get("outputs", []):
            if output["output_type"] == "stream":
                output["text"] = [anonymous(line) for line in output["text"]]
    done["metadata"] = notebook["metadata"]
    return done


def anonymous(line):
    """A line of a warning without the folders of this machine: IPython's file name of a cell holds a process id, a library's its place."""
    return re.sub(r"\S*/site-packages/", "", re.sub(r"\S*/ipykernel_\d+/\d+\.py", "cell", line))


def run(names, to, commit=None, dirty=None):
    """Execute labs on the GPU here and write <to>/<gpu>/<lab>.cells.json. Returns the exit status."""
    missing = [name for name in ("nbclient", "nbformat", "ipykernel") if importlib.util.find_spec(name) is None]
    problem = f"{sys.executable} lacks {', '.join(missing)}: {sys.executable} -m pip install nbclient ipykernel" if missing else runner.gpu_problem()
    if problem:
        print(problem, file=sys.stderr)
        return 2
    failed = []
    for lab in names:
        source, software, machine = runner.source(TOP / "examples" / f"{lab}.py", commit, dirty), runner.software(), runner.machine()
        measured = {"gpu": machine["gpu"], "driver": machine["driver"], "torch": software["torch"], "python": software["python"], "date": runner.now(),
                    "commit": source["commit"], "dirty": source["dirty"], "source": source["path"], "id": source["id"]}
        print(f"{lab}: executing its notebook", flush=True)
        folder, done = to / runner.slug(machine["gpu"]), None
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with tempfile.TemporaryDirectory() as empty:
                done = execute(make(lab, "en"), empty)
            (folder / f"{lab}{cells.SUFFIX}").write_text(cells.as_text(cells.run_of(done, measured)), "utf-8", newline="\n")
        except PageError as error:
            done = done or getattr(error, "notebook", None)
            failed.append(lab)
            print(f"{lab}: {error}", flush=True)
        if done:
            (folder / f"{lab}.ipynb").write_text(cells.dumps(done), "utf-8", newline="\n")
    print(f"{len(names) - len(failed)} of {len(names)} notebooks executed" + (f"; not: {', '.join(failed)}" if failed else ""), flush=True)
    return 1 if failed else 0


def take(folder):
    """Put what was run into examples/results. Raises PageError, before anything is written, for what is incomplete or of other code."""
    programs = bundle.published(TOP / "examples")
    found = cells.load(folder, programs)
    if not found:
        raise PageError(f"{folder} holds no <gpu>/<lab>{cells.SUFFIX}")
    for (gpu, lab), run in found.items():
        if run["stale"]:
            raise PageError(f"{gpu}/{lab}{cells.SUFFIX}: it was measured before the last change of the program")
        if runner.slug(run["measured"]["gpu"]) != gpu:
            raise PageError(f"{gpu}/{lab}{cells.SUFFIX}: it was run on {run['measured']['gpu']}")
    for gpu, lab in found:
        (TOP / "examples" / "results" / gpu).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / gpu / f"{lab}{cells.SUFFIX}", TOP / "examples" / "results" / gpu / f"{lab}{cells.SUFFIX}")
        print(f"{gpu}/{lab}: taken")


def write(to, gpu="nvidia-h200"):
    """The notebooks of both languages below `to`."""
    given = cells.load(TOP / "examples" / "results", bundle.published(TOP / "examples"))
    for lang in languages(TOP):
        (to / lang).mkdir(parents=True, exist_ok=True)
        for lab in labs():
            (to / lang / f"{lab}.ipynb").write_text(cells.dumps(make(lab, lang, given.get((gpu, lab)))), "utf-8", newline="\n")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", help="execute on this machine's GPU")
    runs.add_argument("labs", nargs="*", metavar="LAB")
    runs.add_argument("--to", type=pathlib.Path, required=True, metavar="DIR")
    runs.add_argument("--commit", metavar="SHA", help="the commit of the programs, where there is no git to ask")
    runs.add_argument("--clean", dest="dirty", action="store_false", default=None, help="the programs are those of the commit")
    takes = commands.add_parser("take", help="put what was run into examples/results")
    takes.add_argument("folder", type=pathlib.Path)
    commands.add_parser("make", help="write the notebooks as the site has them").add_argument("--to", type=pathlib.Path, required=True, metavar="DIR")
    options = parser.parse_args(argv)
    try:
        if options.command == "run":
            unknown = sorted(set(options.labs) - set(labs()))
            if unknown:
                raise PageError(f"There is no lab {', '.join(unknown)}. The labs are: {', '.join(labs())}")
            return run(options.labs or list(labs()), options.to, options.commit, options.dirty)
        if options.command == "make":
            write(options.to)
        else:
            take(options.folder)
    except PageError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
