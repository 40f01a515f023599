"""A Python that has imported what checks import and forks for each: pytest and torch cost seconds to start, a fork costs none.

    with Warm() as warm:
        output, status = warm.run("pytest", ["tests/test_tex.py"], cwd=folder)

No module of the tree is imported before the fork, so a fork finds the tree of its folder, as a new process does.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile

PACKAGES = ("hypothesis", "jsonschema", "markdown", "matplotlib.figure", "mkdocs.commands.build", "nbformat", "playwright.sync_api", "pygments.lexers", "pymdownx.superfences", "torch", "yaml")


class Warm:
    def __init__(self):
        self.process = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process:
            self.process.stdin.close()
            self.process.wait()

    def run(self, module, arguments, cwd, env=None, seconds=None):
        """(what `python -m module` said, its status); status None: no end in time."""
        if self.process is None:
            self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=os.path.dirname(__file__),
                                            env={**{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}, "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"})
        with tempfile.NamedTemporaryFile("r", encoding="utf-8", errors="replace") as said:
            job = {"module": module, "arguments": list(map(str, arguments)), "cwd": str(cwd), "env": dict(os.environ if env is None else env), "said": said.name, "seconds": seconds}
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            status = json.loads(self.process.stdout.readline())
            return said.read(), status


def work(job):
    """What the fork does: it becomes `python -m module`, in a session of its own."""
    import runpy

    os.setsid()
    out = os.open(job["said"], os.O_WRONLY | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w", buffering=1, encoding="utf-8"), open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    sys.path[0] = job["cwd"]
    sys.argv = [job["module"], *job["arguments"]]
    try:
        runpy.run_module(job["module"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def main():
    for name in PACKAGES:
        __import__(name)
    import _pytest.config

    for name in _pytest.config.default_plugins:
        __import__(f"_pytest.{name}")
    for line in sys.stdin:
        job = json.loads(line)
        sys.stdout.flush()
        if not (pid := os.fork()):
            status = 70
            try:
                status = work(job)
            except BaseException:
                __import__("traceback").print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status & 0xFF)
        print(json.dumps(waited(pid, job["seconds"])), flush=True)


def waited(pid, seconds):
    """The fork's status as a shell tells it; None where it was ended at last."""
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(pid, signal.SIGKILL))
    if seconds:
        signal.alarm(seconds)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    left = signal.alarm(0)
    return None if seconds and not left and status == -signal.SIGKILL else status


if __name__ == "__main__":
    main()
