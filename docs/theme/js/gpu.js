// Naive and flash attention on the reader's own GPU: what will happen is said, pressed, measured, shown, kept.
import { d, KERNELS, largestS, measure, predicted, total } from "./gpu-attention.js";
import { chart, plain } from "./gpu-chart.js";
import { Device, Failure } from "./gpu-device.js";
import { button, fetched, make } from "./run.js";
import { dress } from "./wgsl.js";

const MIB = 2 ** 20, SIZES = [256, 768, 2048, 6144], TIMES = [10, 30, 60];
let count = 0;

export default function widget(element, words) {
  const { root, form, id: identity, heads } = element.dataset, H = Number(heads), whole = form === "whole";
  const { h200 } = JSON.parse(element.querySelector("script[type='application/json']").textContent);
  dress();
  const id = `gpu-${++count}`;
  let gpu = null, state = null;

  const again = button(words.again, "primary"), stop = button(words.stop), status = make("span", { className: "status" });
  const choose = (name, label, values, chosen, text) => {
    const select = make("select", { id: `${id}-${name}` }, ...[...new Set([...values, chosen])].sort((a, b) => a - b).map((value) => make("option", { value, textContent: text(value), selected: value === chosen })));
    return [make("label", { htmlFor: select.id, textContent: label }), select];
  };
  const [sizeLabel, size] = choose("size", words.memory, SIZES, Number(element.dataset.mib), (mib) => bytes(mib * MIB));
  const [timeLabel, time] = choose("time", words.time, TIMES, Number(element.dataset.seconds), (seconds) => words.seconds({ seconds }));
  status.setAttribute("role", "status");
  const device = make("dl", { className: "device" }), foreseen = make("p", { className: "foreseen" });
  const told = make("div", { className: "told" }), table = make("div", {}), rest = make("div", {});
  const result = make("div", { className: "result", tabIndex: -1 }, make("div", { className: "bar" }, again, stop, sizeLabel, size, timeLabel, time), make("div", { className: "bar" }, status), device, foreseen, told, table, rest);
  element.append(result);
  again.addEventListener("click", start);
  stop.addEventListener("click", () => gpu?.close("stopped"));
  start();

  async function start() {
    if (again.disabled) return;
    again.disabled = true;
    stop.disabled = false;
    for (const part of [device, foreseen, told, table, rest]) part.replaceChildren();
    status.textContent = words.asking;
    state = { rows: [], began: new Date(), mib: Number(size.value), seconds: Number(time.value) };
    try {
      if (!navigator.gpu) throw new Failure("none");
      const kernels = Object.fromEntries(await Promise.all(KERNELS.map(async (name) => [name, await fetched(`${root}examples/webgpu/${name}.wgsl`)])));
      gpu = await Device.open({ cap: state.mib * MIB, seconds: state.seconds });
      introduce();
      Object.assign(state, await measure(gpu, kernels, { H, charts: whole, from: Number(element.dataset.from), upto: Number(element.dataset.upto ?? Infinity) }, hear));
      state.took = (performance.now() - gpu.began) / 1000;
      state.most = gpu.most;
    } catch (error) {
      state.why = error instanceof Failure ? error : new Failure("unavailable", error.message);
    }
    gpu?.close();
    gpu = null;
    again.disabled = false;
    stop.disabled = true;
    finish();
  }

  function introduce() {
    const { info, limit, clocked } = gpu, { limits } = gpu.device;
    Object.assign(state, { info, limit, limits: { maxBufferSize: limits.maxBufferSize, maxStorageBufferBindingSize: limits.maxStorageBufferBindingSize }, clocked, fits: largestS(limit, H) });
    const lines = [
      [words.adapter, [info.description || info.device, info.vendor, info.architecture].filter(Boolean).join(" · ") || words.nameless],
      [words.buffer, exact(limits.maxBufferSize)], [words.binding, exact(limits.maxStorageBufferBindingSize)],
      [words.timer, clocked ? words.byclock : words.bystamps],
      ...(info.subgroups ? [[words.subgroups, [...new Set(info.subgroups)].join("–")]] : []),
    ];
    device.replaceChildren(...lines.flatMap(([name, value]) => [make("dt", { textContent: name }), make("dd", { textContent: value })]));
    foreseen.textContent = words.foreseen({ H, limit: group(limit), fits: group(state.fits), next: group(state.fits + 1) }) + (info.fallback ? ` ${words.software}` : "");
  }

  function hear({ row, doing, S }) {
    if (row) { state.rows.push(row); draw(); }
    else status.textContent = doing === "attention" ? words.running({ S: group(S) }) : doing === "copy" ? words.copying : words.multiplying;
  }

  // The table: a line for each S, naive and flash side by side.
  function draw() {
    const lengths = [...new Set(state.rows.filter(({ part }) => part === "attention").map(({ S }) => S))];
    const at = (impl, S) => state.rows.find((row) => row.impl === impl && row.S === S);
    const body = lengths.map((S) => make("tr", {}, make("th", { scope: "row", textContent: group(S) }), ...["naive", "flash"].flatMap((impl) => cells(at(impl, S)))));
    const head = make("thead", {}, make("tr", {}, ...["S", words.naiveBytes, words.naiveTime, words.flashBytes, words.flashTime].map((textContent) => make("th", { scope: "col", textContent }))));
    const box = make("div", { className: "scroll", tabIndex: 0, ariaLabel: words.table }, make("table", {}, head, make("tbody", {}, ...body)));
    box.setAttribute("role", "group");
    table.replaceChildren(make("p", { className: "unit", textContent: words.caption({ H, d }) }), box);
  }

  function cells(row) {
    if (!row) return [make("td", { textContent: "–" }), make("td", { textContent: "–" })];
    const size = row.bytes ?? row.predicted_bytes;
    const same = row.bytes === null ? words.wouldneed : row.bytes === row.predicted_bytes ? words.aspredicted : words.notpredicted({ bytes: group(row.predicted_bytes) });
    const small = (textContent) => make("small", { textContent });
    const weight = make("td", {}, make("b", { textContent: bytes(size) }), small(`${group(size)} B`), small(same));
    const error = row.rel_err === null ? [] : [small(words.error({ error: row.rel_err.toExponential(1) }))];
    const say = { refused: () => words.refusedCell, oom: () => words.oomCell, cap: () => words.capCell, slow: () => words.slowCell, wrong: () => words.wrongCell, part: () => words.partCell };
    if (row.status !== "ok") return [weight, make("td", { className: `status-${row.status}` }, make("b", { textContent: say[row.status]() }), ...error)];
    return [weight, make("td", {}, make("b", { textContent: `${plain(row.ms)} ms` }), small(`${plain(row.min_ms)} – ${plain(row.max_ms)}`), small(rate(row.tflops)), ...error)];
  }

  // What came out, in sentences.
  function finish() {
    const { rows, why } = state, at = (impl) => rows.filter((row) => row.impl === impl);
    const failures = { none: words.none, adapter: words.noadapter, hidden: words.hidden, stopped: words.stopped, slow: words.endless, lost: words.lost, unavailable: words.unavailable, oom: words.oom, refused: words.broken, cap: words.broken, code: words.broken };
    const ended = why ? failures[why.status] : null;
    status.textContent = why ? (typeof ended === "function" ? ended({ said: why.detail }) : ended) : words.done({ seconds: plain(state.took), memory: bytes(state.most) });
    const say = (text, kind = "") => told.append(make("p", { className: `note ${kind}`, textContent: text }));
    const refused = at("naive").find((row) => row.status === "refused");
    if (refused) {
      const expected = refused.S > state.fits && refused.largest_buffer_bytes > state.limit;
      if (expected && refused.S === state.fits + 1) say(words.refused({ S: group(refused.S), bytes: group(refused.largest_buffer_bytes), limit: group(state.limit) }), "good");
      else if (expected) say(words.refusedLater({ S: group(refused.S), bytes: group(refused.largest_buffer_bytes), next: group(state.fits + 1), memory: bytes(state.mib * MIB) }), "good");
      else say(words.refusedElse({ S: group(refused.S), fits: group(state.fits), said: refused.refused_by }), "bad");
      say(words.quote({ said: refused.refused_by.split("\n")[0] }));
    } else if (!why && rows.length) say(words.unrefused({ memory: bytes(state.mib * MIB), seconds: state.seconds, next: group(state.fits + 1) }));
    const on = at("flash").find((row) => refused && row.S === refused.S && ["ok", "part"].includes(row.status));
    if (on) say(on.status === "ok" ? words.on({ S: group(on.S), memory: bytes(on.bytes) }) : words.onPart({ S: group(on.S), memory: bytes(on.bytes) }), "good");
    const failed = at("naive").find((row) => row.status === "oom") ?? at("flash").find((row) => row.status === "oom");
    if (failed) say(words.oom, "bad");
    const wrong = rows.filter((row) => row.status === "wrong");
    if (wrong.length) say(words.wrong({ where: wrong.map((row) => `${row.impl} S = ${group(row.S)}`).join(", ") }), "bad");
    const both = at("flash").filter((row) => row.status === "ok").map((row) => [row, at("naive").find((other) => other.S === row.S && other.status === "ok")]).filter(([, naive]) => naive).at(-1);
    if (both) say(words.compared({ S: group(both[0].S), memory: plain(both[1].bytes / both[0].bytes), time: plain(both[1].ms / both[0].ms) }));
    if (rows.length) { details(); if (whole) { charts(); keep(); } }
  }

  function details() {
    const lines = state.rows.filter(({ buffers }) => buffers).flatMap((row) => Object.entries(row.buffers).map(([name, size], n) => make("tr", {}, make("th", { scope: "row", textContent: n ? "" : `${row.impl} · ${group(row.S)}` }), ...[name, group(size), group(predicted[row.impl](H, row.S)[name])].map((textContent) => make("td", { textContent })))));
    const box = make("div", { className: "scroll", tabIndex: 0, ariaLabel: words.buffers }, make("table", {}, make("thead", {}, make("tr", {}, ...[words.program, words.name, words.asked, words.formula].map((textContent) => make("th", { scope: "col", textContent })))), make("tbody", {}, ...lines)));
    box.setAttribute("role", "group");
    rest.append(make("details", {}, make("summary", { textContent: words.buffers }), box));
  }

  function charts() {
    const { rows } = state, ok = (impl) => rows.filter((row) => row.impl === impl && row.status === "ok" && row.part === "attention");
    const sized = (impl) => rows.filter((row) => row.impl === impl && row.bytes && row.part === "attention");
    const sides = ["naive", "flash"], name = { naive: words.naive, flash: words.flash };
    const four = (mine, theirs) => [
      ...sides.map((kind) => ({ name: words.yours({ name: name[kind] }), kind, dot: "full", points: mine(kind) })),
      ...sides.map((kind) => ({ name: `H200 · ${name[kind]}`, kind, dot: "hollow", points: theirs(kind) })),
    ];
    const xs = Array.from({ length: 15 }, (_, k) => 2 ** k / 2);
    const copy = rows.find(({ impl }) => impl === "copy"), product = rows.find(({ impl }) => impl === "matmul");
    const roof = (gbps, tflops) => { const ridge = (1000 * tflops) / gbps; const from = Math.min(1, ridge / 4); return [[from, (from * gbps) / 1000], [ridge, tflops], [Math.max(16384, 2 * ridge), tflops]]; };
    rest.append(
      chart({ title: words.memoryChart, x: "S / d", y: words.memoryAxis, series: [
        { name: words.lineNaive, kind: "naive", line: "thin", points: xs.map((x) => [x, 4 + 2 * x]) }, { name: words.lineFlash, kind: "flash", line: "thin", points: xs.map((x) => [x, 4]) },
        ...four((kind) => sized(kind).map((row) => [row.S / d, row.bytes / (4 * H * row.S * d)]), (kind) => h200.memory[kind]),
      ] }),
      chart({ title: words.timeChart, x: "S", y: words.timeAxis, series: four((kind) => ok(kind).map((row) => [row.S, row.ms / H]), (kind) => h200.time[kind]) }),
      chart({ title: words.roofChart, x: words.roofAxis, y: "TFLOP/s", series: [
        ...(copy && product ? [{ name: words.yourRoof({ gbps: plain(copy.gbps), flops: rate(product.tflops) }), kind: "roof", line: "line", points: roof(copy.gbps, product.tflops) }] : []),
        { name: words.theirRoof({ gbps: plain(h200.roof[0]), flops: rate(h200.roof[1]) }), kind: "roof", line: "thin", points: roof(...h200.roof) },
        ...four((kind) => ok(kind).map((row) => [row.flop / row.traffic_bytes, row.tflops]), (kind) => h200.points[kind]),
      ] }),
      make("p", { className: "hint", textContent: words.chartsNote }));
  }

  // The result in the project's form.
  function keep() {
    const save = button(words.save);
    save.addEventListener("click", () => {
      const link = make("a", { href: URL.createObjectURL(new Blob([written()], { type: "application/json" })), download: `${slug()}.json` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
    rest.append(make("div", { className: "bar" }, save, make("span", { className: "hint", textContent: words.kept })));
  }

  function slug() { return ([state.info.vendor, state.info.architecture, state.info.device].join(" ").toLowerCase().match(/[a-z0-9]+/g) ?? ["unknown"]).join("-"); }

  function written() {
    const { rows, why, info, limits } = state;
    const seen = {
      schema: 2, lab: "webgpu", source: { path: "examples/webgpu", id: identity, commit: null, dirty: null },
      run: { started: state.began.toISOString().replace(/\.\d+/, ""), seconds: Math.round(10 * (state.took ?? 0)) / 10, command: `gpu page, ${state.mib} MiB, ${state.seconds} s`, seed: 2026, status: why ? "failed" : "ok", error: why?.status ?? null },
      machine: { gpu: [info.description || info.device, info.vendor, info.architecture].filter(Boolean).join(" ") || "unnamed", memory: null, driver: null, sms: null, l2: null, cpu: null, os: navigator.userAgentData?.platform || navigator.platform || "unknown" },
      software: { browser: navigator.userAgent, python: null, torch: null, cuda: null, cudnn: null, triton: null },
      values: { max_buffer_bytes: limits.maxBufferSize, max_binding_bytes: limits.maxStorageBufferBindingSize, heads: H, predicted_fit_S: state.fits, predicted_refused_S: state.fits + 1, refused_S: rows.find((row) => row.impl === "naive" && row.status === "refused")?.S ?? null, cap_bytes: state.mib * MIB, timestamps: !state.clocked, fallback: info.fallback },
    };
    const flat = rows.map(({ buffers, ...row }) => JSON.stringify({ ...row, ...Object.fromEntries(Object.entries(buffers ?? {}).map(([name, size]) => [`${name}_bytes`, size])) }));
    return `${JSON.stringify(seen, null, 1).replace(/\n}$/, "")},\n "rows": [\n  ${flat.join(",\n  ")}\n ]\n}\n`;
  }
}

function rate(tflops) { return tflops < 0.1 ? `${plain(1000 * tflops)} GFLOP/s` : `${plain(tflops)} TFLOP/s`; }

/** A whole number with its thousands set apart. */
function group(n) { return String(n).replace(/\B(?=(\d{3})+$)/g, ","); }

function exact(n) { return `${bytes(n)} (${group(n)} B)`; }

function bytes(n) {
  let x = n, unit = 0;
  while (x >= 1024 && unit < 3) { x /= 1024; unit++; }
  return `${plain(x, 4)} ${["B", "KiB", "MiB", "GiB"][unit]}`;
}
