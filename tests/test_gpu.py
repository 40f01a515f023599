"""The reader's own GPU: the announcement, both programs, the refusal, the grader of kernels, and every way to fail. On a GPU that is software: values and bytes, never times."""
import hashlib
import json
import math
import re

import pytest
from core import gpu, results
from core.errors import PageError
from support import LANGUAGES, TOP, WORDS, said, violations

KERNELS = TOP / "examples" / "webgpu"
FLASH = (KERNELS / "flash.wgsl").read_text("utf-8")
# Counts what the page asks for. Each is a test's own disturbance of the browser, put in before the page's scripts.
COUNT = "window.asked = 0; if (navigator.gpu) { const ask = GPU.prototype.requestAdapter; GPU.prototype.requestAdapter = function (...a) { window.asked++; return ask.apply(this, a) } }"


def limited(name, size):
    return f"{{ const real = Object.getOwnPropertyDescriptor(GPUAdapter.prototype, 'limits').get; Object.defineProperty(GPUAdapter.prototype, 'limits', {{ get() {{ return new Proxy(real.call(this), {{ get: (t, n) => n === '{name}' ? {size} : t[n] }}) }} }}) }}"


class View:
    """A page of a language with its widget, made small: one head, S = 64 and then the refusal."""

    def __init__(self, instance, address, path, scripts=(), phone=False, seconds=60, mib=32, **data):
        self.context = instance.new_context(viewport={"width": 390 if phone else 1280, "height": 844}, accept_downloads=True)
        for script in (COUNT, *scripts):
            self.context.add_init_script(script)
        self.page = self.context.new_page()
        self.fetched, self.errors = [], []
        self.page.on("request", lambda request: self.fetched.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(address + path, wait_until="load")
        self.widget = self.page.locator(".widget-gpu")
        self.widget.evaluate("(e, data) => Object.assign(e.dataset, data)", {"heads": "1", "seconds": str(seconds), "mib": str(mib), "from": "64", "upto": "64", **data})

    def start(self):
        self.widget.locator(".start button").click()

    def press(self):
        self.start()
        self.ended()
        return self

    def ended(self):
        self.widget.locator(".result button.primary:not([disabled])").wait_for(timeout=60_000)

    @property
    def said(self):
        return self.widget.locator(".status").inner_text()

    def saved(self):
        with self.page.expect_download() as download:
            self.widget.locator(".result > div > .bar button").click()
        return download.value.suggested_filename, json.loads(download.value.path().read_text("utf-8"))

    def close(self):
        self.context.close()


@pytest.fixture
def view(request, served):
    opened = []

    def open_(instance, path="en/gpu/", **options):
        opened.append(View(instance, served, path, **options))
        return opened[-1]

    yield open_
    for one in opened:
        assert one.errors == []
        one.close()


def engine(view, body, *arguments):
    """Run JavaScript with the page's own modules: D device, A attention, G grader; kernels by name."""
    return view.page.evaluate("""async (args) => {
        const base = document.querySelector("script[src$='js/site.js']").src.replace("site.js", "");
        const [D, A, G] = await Promise.all(["device", "attention", "grade"].map((name) => import(`${base}gpu-${name}.js`)));
        const kernels = {};
        for (const name of A.KERNELS) kernels[name] = await (await fetch(`../../examples/webgpu/${name}.wgsl`)).text();
        return await BODY(D, A, G, kernels, ...args);
    }""".replace("BODY", f"({body})"), list(arguments))


# The files.

def test_a_kernel_is_a_page_long_and_shown_whole(site):
    for path in sorted(KERNELS.glob("*.wgsl")):
        text = path.read_text("utf-8")
        assert text.count("\n") <= 60, f"{path.name}: at most 60 lines, so that it is read at one sight"
        assert (site / "examples" / "webgpu" / path.name).read_bytes() == path.read_bytes(), "served byte for byte"
    assert {path.stem for path in KERNELS.glob("*.wgsl")} == set(gpu.KERNELS)


def test_the_identity_is_of_all_kernels():
    texts = {f"webgpu/{name}.wgsl": (KERNELS / f"{name}.wgsl").read_text("utf-8") for name in gpu.KERNELS}
    whole = gpu.identity(texts)
    assert whole == hashlib.sha256("".join(texts[f"webgpu/{name}.wgsl"] for name in gpu.KERNELS).encode()).hexdigest()
    assert all(gpu.identity({**texts, name: text + " "}) != whole for name, text in texts.items())


def test_the_cards_points_lie_on_the_lines_of_the_memory_chart():
    """4 + 2·S/d and 4, whatever the precision, the heads and d: bytes in multiples of the bytes of q."""
    found = gpu.points(results.load(TOP / "examples" / "results", TOP / "examples"), "nvidia-h200")
    assert len(found["memory"]["naive"]) >= 5 and found["roof"][0] > 0
    for x, y in found["memory"]["naive"]:
        assert y == 4 + 2 * x
    for x, y in found["memory"]["flash"]:
        assert 4 < y < 4.1
    assert all(len(found[kind][side]) >= 5 for kind in ("time", "points") for side in gpu.SIDES)


# Before the button.

@pytest.mark.parametrize("path", ["en/gpu/", "zh/gpu/", "en/lesson/"])
def test_nothing_runs_and_nothing_is_fetched_before_the_button_which_says_what_will_happen(view, chromium_with_gpu, path):
    one = view(chromium_with_gpu, path)
    one.page.wait_for_load_state("networkidle")
    assert one.page.evaluate("asked") == 0
    assert not [url for url in one.fetched if re.search(r"/gpu[\w-]*\.js|\.wgsl|gpu\.css", url)]
    short = path.endswith("lesson/")
    seconds, mib = gpu.SHORT if short else (gpu.SECONDS, gpu.MIB)
    for text in (one.widget.locator(".start button").text_content(), one.widget.locator(".happens").text_content()):
        assert str(seconds) in text and f"{mib} MiB" in text.replace("\N{NO-BREAK SPACE}", " ")
    assert violations(one.page, ".widget-gpu") == []


# What runs.

@pytest.mark.parametrize("lang, phone", [("en", False), ("zh", True)])
def test_bytes_are_as_predicted_values_are_right_and_naive_is_refused_where_the_formula_says(view, chromium_with_gpu, lang, phone):
    one = view(chromium_with_gpu, f"{lang}/gpu/", phone=phone).press()
    hosts = {url.split("/")[2] for url in one.fetched if url.startswith("http")}
    assert len(hosts) == 1 and one.page.evaluate("asked") == 1
    name, result = one.saved()
    assert name == "google-swiftshader.json" and result["software"]["cuda"] is None and "Chrom" in result["software"]["browser"]
    values, rows = result["values"], [row for row in result["rows"] if row["part"] == "attention"]
    limit = min(values["max_buffer_bytes"], values["max_binding_bytes"])
    fits = math.isqrt(limit // 4)
    assert (values["predicted_fit_S"], values["predicted_refused_S"]) == (fits, fits + 1)
    refused = [row for row in rows if row["status"] == "refused"]
    assert [(row["impl"], row["S"]) for row in refused] == [("naive", fits + 1)] and values["refused_S"] == fits + 1
    assert str(4 * (fits + 1) ** 2) in refused[0]["refused_by"], "the browser's own words, about this buffer"
    ran = [row for row in rows if row["status"] in ("ok", "part")]
    assert {row["impl"] for row in ran} == {"naive", "flash"} and ran[-1]["S"] >= fits + 1 and ran[-1]["impl"] == "flash"
    for row in ran:
        H, S, d, e = row["heads"], row["S"], row["d"], 4
        formula = 4 * H * S * d * e + (2 * H * S * S * e if row["impl"] == "naive" else 4 * H * S)
        assert row["bytes"] == row["predicted_bytes"] == formula == sum(size for key, size in row.items() if re.fullmatch(r"(q|k|v|o|s|p|lse)_bytes", key))
        assert 0 < row["rel_err"] < 1e-4 and row["rows_checked"] >= 6
    timed = [row for row in result["rows"] if row["status"] == "ok"]
    for row in timed:
        assert row["timer"] in ("timestamps", "clock") and row["samples"] >= 2 and row["min_ms"] <= row["ms"] <= row["max_ms"]
    assert {row["impl"] for row in result["rows"] if row["part"] == "ceiling"} == {"copy", "matmul"}
    # What the page says of it.
    told = one.widget.inner_text()
    number = f"{fits + 1:,}"
    assert number in told and re.search(said(WORDS[lang].gpu.refused), told)
    assert one.widget.locator(".note.good").count() == 2 and one.widget.locator(".note.bad").count() == 0
    assert one.widget.locator(".status-refused").count() == 1 and one.widget.locator("figure.curve svg[role=img]").count() == 3
    if lang == "zh":
        english = [text for text in one.widget.locator(".note, .foreseen, figcaption, th, .status").all_inner_texts() if not re.search("[\u4e00-\u9fff]", text) and re.search("[A-Za-z]{3,}", text.replace("flash", ""))]
        assert all("GiB" in text or "max buffer" in text for text in english), english
    assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "a phone's page does not scroll sideways"
    assert violations(one.page, ".widget-gpu") == []
    # What is kept is what the project takes.
    folder = KERNELS / "results"
    gpu_schema = json.loads((folder / "schema.json").read_text("utf-8"))
    import jsonschema

    jsonschema.Draft202012Validator(gpu_schema).validate(result)
    assert result["source"]["id"] == gpu.identity({f"webgpu/{name}.wgsl": (KERNELS / f"{name}.wgsl").read_text("utf-8") for name in gpu.KERNELS})


def test_the_short_form_refuses_too_and_frees_its_device(view, chromium_with_gpu):
    one = view(chromium_with_gpu, "en/lesson/", scripts=["window.made = []; { const real = GPUAdapter.prototype.requestDevice; GPUAdapter.prototype.requestDevice = async function (...a) { const made = await real.apply(this, a); window.made.push(0); made.lost.then(() => { window.made[window.made.length - 1] = 1 }); return made } }"]).press()
    assert one.widget.locator(".status-refused").count() == 1 and one.widget.locator("figure").count() == 0
    one.page.wait_for_timeout(100)
    assert one.page.evaluate("made") == [1], "a run has one device, and gives it back"


def test_a_limit_on_bindings_alone_is_predicted_too(view, chromium_with_gpu):
    """Most cards make larger buffers than they bind. The buffer is made only within the announced memory; else the page asks where nothing need be made."""
    one = view(chromium_with_gpu, scripts=[limited("maxStorageBufferBindingSize", 2**27)])
    found = engine(one, """async (D, A, G, kernels) => {
        const gpu = await D.Device.open({ cap: 2 ** 28, seconds: 5 }), { limits } = gpu.device, attention = new A.Attention(gpu, kernels, 1);
        const S = A.refusedAt(limits, 2 ** 28, 1), inputs = await attention.inputs(S), row = await attention.row("naive", S, inputs);
        gpu.close();
        return { S, status: row.status, said: row.refused_by, within: gpu.most <= 2 ** 28, free: A.refusedAt(limits, 2 ** 26, 1), page: [2 ** 27, 2 ** 31 - 4].map((limit) => A.largestS(limit, 4)) };
    }""")
    assert found["S"] == 5793 and found["status"] == "refused" and "binding" in found["said"] and found["within"]
    assert found["page"] == [2896, 11585] and all(str(S) in (TOP / f"docs/{lang}/gpu.md").read_text("utf-8") for S in found["page"] for lang in LANGUAGES)
    assert found["free"] == 16385, "128 MiB were not announced: asked where no buffer can be made"



# The grader.

RACE_FIRST = "    workgroupBarrier();                                              // the tile is whole"
WRONG = {
    "no rescale": ([("let rescale = exp(m - m_new);", "let rescale = 1.0;")], "rescale", "rescale"),
    "o is not rescaled": ([("o_row[i] *= rescale", "o_row[i] *= 1.0")], "rescale", "rescale_o"),
    "the edge is not masked": ([("select(LOWEST, sum, start + j < shape.S)", "sum")], "edge", "edge"),
    "no barrier before reading": ([(RACE_FIRST, "    //")], "threads", "barrier"),
    "no barrier before loading": ([("    workgroupBarrier();                                              // everyone", "    //")], "threads", "barrier"),
    "a subgroup of 32 assumed": ([("struct Shape", "enable subgroups;\nstruct Shape"), ("thread: u32)", "thread: u32, @builtin(subgroup_invocation_id) lane: u32)"), ("var i = thread; i < Bc * D; i += Br", "var i = lane; i < Bc * D; i += 32")], "keys", "subgroup"),
    "a fixed step of 32": ([("var i = thread; i < Bc * D; i += Br", "var i = thread % 32; i < Bc * D; i += 32")], "keys", "missing"),
    "not divided by l": ([("o_row[i] / l", "o_row[i]")], "keys", "divide"),
    "it does not compile": ([("let p = exp", "let p == exp")], "compiles", "code"),
}


def edited(edits):
    text = FLASH
    for old, new in edits:
        assert old in text, f"flash.wgsl has no {old!r}: mend WRONG in tests/test_gpu.py"
        text = text.replace(old, new)
    return text


def test_wrong_kernels_are_refused_and_what_is_wrong_is_named(view, chromium_with_gpu):
    one = view(chromium_with_gpu)
    codes = {name: edited(edits) for name, (edits, _, _) in WRONG.items()}
    found = engine(one, """async (D, A, G, kernels, codes) => {
        const out = {};
        for (const [name, code] of Object.entries(codes)) { const { found } = await G.grade(code, kernels); out[name] = found.at(-1); }
        return out;
    }""", codes)
    for name, (_, fails, why) in WRONG.items():
        assert (found[name]["name"], found[name]["passed"], found[name].get("why")) == (fails, False, why), f"{name}: {found[name]}"
    assert found["it does not compile"]["line"] == next(n for n, line in enumerate(codes["it does not compile"].splitlines(), 1) if "let p ==" in line)


def test_a_race_that_this_device_does_not_show_is_named_too(view, chromium_with_gpu):
    """storageBarrier() orders no workgroup memory; software waits for all threads all the same, and the values are right."""
    text = edited([("    m = m_new;\n    workgroupBarrier();", "    m = m_new;\n    storageBarrier();")])
    found = engine(view(chromium_with_gpu), "async (D, A, G, kernels, code) => (await G.grade(code, kernels)).found", text)
    assert (found[-1]["name"], found[-1]["why"]) == ("barriers", "barriers") and all(one["passed"] for one in found[:-1])


def test_the_editor_names_the_mistake_and_times_what_is_right(view, chromium_with_gpu):
    one = view(chromium_with_gpu, "zh/gpu/")
    editor = one.page.locator(".widget-wgsl")
    editor.evaluate("e => Object.assign(e.dataset, { heads: '1', length: '64' })")
    area, check = editor.locator("textarea"), editor.locator("button.primary")
    assert area.input_value() == FLASH
    area.fill(edited([("start + j < shape.S", "true")]))
    check.click()
    editor.locator(".results .no .why").wait_for(timeout=60_000)
    assert WORDS["zh"].wgsl.why.edge.text in editor.locator(".why").inner_text() and "37" in editor.locator(".where").inner_text()
    assert violations(one.page, ".widget-wgsl") == []
    editor.locator(".bar button").nth(1).click()
    assert area.input_value() == FLASH
    check.click()
    one.page.locator(".widget-wgsl .results li:nth-child(9).ok").wait_for(timeout=60_000)
    editor.locator("button.primary:not([disabled])").wait_for(timeout=60_000)
    assert re.search(said(WORDS["zh"].wgsl.raced, S=64), editor.locator(".status").inner_text())


# What can go wrong.

@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("case", ["no WebGPU", "no adapter"])
def test_without_webgpu_or_an_adapter_the_page_says_so(view, chromium, lang, case):
    """The browser of the other tests has no GPU."""
    hide = "Object.defineProperty(Navigator.prototype, 'gpu', { get() { return undefined } })"
    give = "Object.defineProperty(Navigator.prototype, 'gpu', { get() { return { requestAdapter: async () => null } } })"
    one = view(chromium, f"{lang}/gpu/", scripts=[hide if case == "no WebGPU" else give]).press()
    assert WORDS[lang].gpu["none" if case == "no WebGPU" else "noadapter"].text.split("{")[0].strip() in one.said and one.widget.locator("table").count() == 0
    editor = one.page.locator(".widget-wgsl")
    editor.locator("button.primary").click()
    editor.locator("button.primary:not([disabled])").wait_for()
    assert "WebGPU" in editor.locator(".status").inner_text()


SLOW = "{ const real = GPUQueue.prototype.onSubmittedWorkDone; let n = 0; GPUQueue.prototype.onSubmittedWorkDone = function () { n++; return n > 3 ? new Promise(() => {}) : real.call(this) } }"   # a device that stops answering


def test_a_hidden_page_a_stop_and_a_lost_device_end_the_run_and_keep_what_was_measured(view, chromium_with_gpu):
    one = view(chromium_with_gpu, scripts=[SLOW, "window.devices = []; { const real = GPUAdapter.prototype.requestDevice; GPUAdapter.prototype.requestDevice = async function (...a) { const made = await real.apply(this, a); devices.push(made); return made } }"])
    one.start()
    one.widget.locator(".foreseen:not(:empty)").wait_for()
    one.page.evaluate("() => { Object.defineProperty(document, 'hidden', { configurable: true, value: true }); document.dispatchEvent(new Event('visibilitychange')); delete document.hidden }")
    one.ended()
    assert one.said == WORDS["en"].gpu.hidden.text
    again, stop = one.widget.locator(".result .bar button").nth(0), one.widget.locator(".result .bar button").nth(1)
    again.click()
    one.widget.locator(".foreseen:not(:empty)").wait_for()
    stop.click()
    one.ended()
    assert one.said == WORDS["en"].gpu.stopped.text
    again.click()
    one.widget.locator(".foreseen:not(:empty)").wait_for()
    one.page.evaluate("devices.at(-1).destroy()")
    one.ended()
    assert re.search(said(WORDS["en"].gpu.lost), one.said)


def test_a_device_that_never_answers_is_given_up(view, chromium_with_gpu):
    one = view(chromium_with_gpu, scripts=[SLOW], seconds=-14)
    one.press()
    assert one.said == WORDS["en"].gpu.endless.text


def test_wrong_numbers_memory_that_runs_out_and_a_cap_are_rows_that_say_so(view, chromium_with_gpu):
    one = view(chromium_with_gpu)
    found = engine(one, """async (D, A, G, kernels) => {
        const row = async (impl, { cap = 2 ** 26, seconds = 5, S = 64, ...change } = {}) => {
            const gpu = await D.Device.open({ cap, seconds });
            if (change.oom) {
                const make = gpu.device.createBuffer.bind(gpu.device);
                gpu.device.createBuffer = (what) => { gpu.full = what.label === "s"; return make(what); };
                const pop = gpu.device.popErrorScope.bind(gpu.device);
                let scope = 0;
                gpu.device.popErrorScope = async () => { const error = await pop(); return gpu.full && ++scope % 3 === 0 ? (gpu.full = false, { message: "Out of memory" }) : error; };
            }
            const attention = new A.Attention(gpu, { ...kernels, ...change.kernels }, 1);
            if (change.rate) attention.rate[impl] = change.rate;
            const inputs = await attention.inputs(S), made = await attention.row(impl, S, inputs);
            const after = gpu.held;
            gpu.free(...Object.values(inputs));
            const left = gpu.held;
            gpu.close();
            return [made.status, made.rel_err, left];
        };
        return {
            right: await row("naive"), wrong: await row("flash", { kernels: { flash: kernels.flash.replace("o_row[i] / l", "1.001 * o_row[i] / l") } }),
            oom: await row("naive", { oom: true }), cap: await row("naive", { cap: 2 ** 16 }), slow: await row("naive", { rate: 1e6 }),
        };
    }""")
    assert {name: row[0] for name, row in found.items()} == {"right": "ok", "wrong": "wrong", "oom": "oom", "cap": "cap", "slow": "slow"}
    assert found["wrong"][1] == pytest.approx(1e-3, rel=0.2) and found["right"][1] < 1e-5
    assert all(row[2] <= 512 for row in found.values()), "what a row made, it frees"


def test_a_sample_is_long_enough_for_a_coarse_clock_also_when_the_gpu_warms_up(view, chromium_with_gpu):
    found = engine(view(chromium_with_gpu), """async (D) => {
        const gpu = await D.Device.open({ cap: 2 ** 20, seconds: 5 }), speed = [30, 12, 12, ...Array(40).fill(0.4)];
        gpu.run = async (jobs, repeats = 1) => speed.shift() * repeats;
        const timed = await gpu.time([]);
        gpu.close();
        return timed;
    }""")
    assert found["samples"] == 5 and found["min_ms"] * found["repeats"] >= 10 and found["ms"] == pytest.approx(0.4)


def test_timestamps_that_say_nothing_give_way_to_the_clock(view, chromium_with_gpu):
    one = view(chromium_with_gpu)
    timers = engine(one, """async (D, A, G, kernels) => {
        const out = [];
        for (const broken of [false, true]) {
            const gpu = await D.Device.open({ cap: 2 ** 26, seconds: 5 });
            const [x, y] = [await gpu.buffer("x", 2 ** 20), await gpu.buffer("y", 2 ** 20)];
            const job = await gpu.job("copy", kernels.copy, [x, y], [64]);
            if (broken) { const real = GPUCommandEncoder.prototype.resolveQuerySet; GPUCommandEncoder.prototype.resolveQuerySet = () => {}; out.push((await gpu.time([job], { least: 2, most: 2 })).timer); GPUCommandEncoder.prototype.resolveQuerySet = real; }
            else out.push((await gpu.time([job], { least: 2, most: 2 })).timer);
            gpu.close();
        }
        return out;
    }""")
    assert timers == ["timestamps", "clock"]


# What is contributed.

def test_a_contributed_file_is_read_and_a_damaged_one_is_named(tmp_path):
    (tmp_path / "schema.json").write_bytes((KERNELS / "results" / "schema.json").read_bytes())
    good = {
        "schema": 2, "lab": "webgpu", "source": {"path": "examples/webgpu", "id": "0" * 64, "commit": None, "dirty": None},
        "run": {"started": "2026-11-30T12:00:00Z", "seconds": 9.5, "command": "gpu page", "seed": 2026, "status": "ok", "error": None},
        "machine": {"gpu": "g", "memory": None, "driver": None, "sms": None, "l2": None, "cpu": None, "os": "o"},
        "software": {"browser": "b", "python": None, "torch": None, "cuda": None, "cudnn": None, "triton": None},
        "rows": [{"part": "attention", "impl": "naive", "S": 64, "kernel": None, "status": "refused"}],
        "values": {name: 1 for name in ("max_buffer_bytes", "max_binding_bytes", "heads", "predicted_fit_S", "predicted_refused_S", "refused_S", "cap_bytes", "timestamps", "fallback")},
    }
    (tmp_path / "g.json").write_text(json.dumps(good), "utf-8")
    assert list(gpu.contributed(tmp_path)) == ["g"]
    for change, complaint in [({"software": {**good["software"], "cuda": "13.0"}}, "g.json: software/cuda"), ({"rows": [{**good["rows"][0], "status": "ok"}]}, "g.json: rows/0/kernel"), ({"lab": "x"}, "g.json: lab")]:
        (tmp_path / "g.json").write_text(json.dumps({**good, **change}), "utf-8")
        with pytest.raises(PageError, match=complaint):
            gpu.contributed(tmp_path)
    (tmp_path / "g.json").write_text("{NaN}", "utf-8")
    with pytest.raises(PageError, match="g.json: not strict JSON"):
        gpu.contributed(tmp_path)


def test_what_was_contributed_is_whole():
    gpu.contributed(KERNELS / "results")
