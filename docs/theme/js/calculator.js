// Bytes, FLOPs and least times of attention for any shape on any card, by formulas.js; beside them what the labs measured, where
// they measured that shape on that card. The state is the address's query, so that it can be shared.
import * as formulas from "./formulas.js";

const BYTES = { bf16: 2n, fp16: 2n, fp32: 4n };
const SYMBOLS = { B: "B", H: "H", Hkv: "Hkv", S: "S", d: "d", dtype: "e", gbps: "W", tflops: "P" };
const SHAPE = ["B", "H", "Hkv", "S", "d"], CARD = ["sms", "gib", "gbps", "tflops"];
/** What a field may hold: [least, most], decimals where `whole` is false. */
export const FIELDS = {
  B: { least: 1, most: 1e6, whole: true }, H: { least: 1, most: 1e4, whole: true }, Hkv: { least: 1, most: 1e4, whole: true },
  S: { least: 2, most: 1e9, whole: true }, d: { least: 1, most: 256, whole: true },
  sms: { least: 1, most: 1e5, whole: true }, gib: { least: 0.001, most: 1e6 }, gbps: { least: 0.001, most: 1e9 }, tflops: { least: 0.001, most: 1e9 }, reserve: { least: 0, most: 1e6 },
};

let count = 0;

export default function widget(element, words, lang, shared) {
  const { cards, measured, example, reserve } = JSON.parse(element.querySelector("script").textContent);
  const { root } = element.dataset;
  const called = { naive: words.naive, flash: words.flash };
  const id = `calculator-${++count}`;
  element.querySelector(".static").remove();

  // What is filled in.
  const controls = {}, errors = {};
  const field = (name, control) => {
    const told = make("p", { id: `${id}-${name}-wrong`, className: "wrong", hidden: true });
    control.id = `${id}-${name}`;
    control.setAttribute("aria-describedby", told.id);
    [controls[name], errors[name]] = [control, told];
    const label = make("label", { htmlFor: control.id }, ...(SYMBOLS[name] ? [sign(SYMBOLS[name]), " "] : []), words.fields[name]);
    return make("div", { className: `field${control.type === "checkbox" ? " check" : name === "gpu" ? " wide" : ""}` }, ...(control.type === "checkbox" ? [control, label] : [label, control]), told);
  };
  const number = (name) => field(name, make("input", { type: "text", inputMode: FIELDS[name].whole ? "numeric" : "decimal", autocomplete: "off", spellcheck: false, maxLength: 40 }));
  const choice = (name, options) => field(name, make("select", {}, ...options.map(([value, textContent]) => make("option", { value, textContent }))));
  const source = make("p", { className: "hint" });
  const notice = make("p", { className: "note", hidden: true }), wrong = make("p", { className: "note wrongs", hidden: true });
  const copy = make("button", { type: "button", textContent: words.copy }), reset = make("button", { type: "button", textContent: words.reset });
  const told = make("span", { className: "status" }), link = make("input", { type: "text", readOnly: true, hidden: true, ariaLabel: words.here });
  told.setAttribute("role", "status");
  const said = make("p", { className: "announced" });
  said.setAttribute("role", "status");
  const results = make("div", { className: "answers" });
  const form = make("form", {},
    make("fieldset", {}, make("legend", { textContent: words.shape }), ...SHAPE.map(number), choice("dtype", Object.keys(BYTES).map((name) => [name, name])), field("causal", make("input", { type: "checkbox" }))),
    make("fieldset", {}, make("legend", { textContent: words.card }), choice("gpu", [...cards.map(({ key, name }) => [key, name]), ["own", words.own]]), ...CARD.map(number), number("reserve"), source, make("p", { className: "hint", textContent: words.reserve_note })),
    make("div", { className: "bar" }, copy, reset, told, link));
  element.prepend(form, notice, wrong, said, results);
  form.addEventListener("submit", (event) => event.preventDefault());

  // The state: texts as written, so that nonsense can be shown and explained.
  const defaults = { B: example.B, H: example.heads, Hkv: example.kv_heads, S: example.S, d: example.d, dtype: example.dtype, causal: example.causal ? 1 : 0, gpu: cards[0].key, reserve };
  let later = 0, silent = true;

  function fill(state) {
    for (const name of [...SHAPE, "dtype", "gpu", "reserve"]) controls[name].value = state[name];
    controls.causal.checked = Number(state.causal) === 1;
    const card = cards.find(({ key }) => key === state.gpu);
    for (const name of CARD) controls[name].value = card ? card[name] : state[name] ?? cards[0][name];
  }

  function fromAddress() {
    const query = new URLSearchParams(location.search), state = { ...defaults }, complaints = [];
    const take = (name) => query.get(name)?.slice(0, 40);
    for (const name of [...SHAPE, "reserve", ...CARD]) if (query.has(name)) state[name] = take(name);
    for (const [name, allowed] of [["dtype", Object.keys(BYTES)], ["causal", ["0", "1"]], ["gpu", [...cards.map(({ key }) => key), "own"]]]) {
      if (!query.has(name)) continue;
      if (allowed.includes(take(name))) state[name] = take(name);
      else complaints.push(words.unknown({ name, value: take(name), taken: name === "gpu" ? cards[0].name : String(defaults[name]) }));
    }
    fill(state);
    say(notice, complaints.join(" "));
    show();
  }

  function toAddress() {
    const query = new URLSearchParams(location.search);
    for (const name of [...SHAPE, "dtype", "gpu", "reserve"]) query.set(name, controls[name].value.trim());
    query.set("causal", controls.causal.checked ? 1 : 0);
    for (const name of CARD) if (controls.gpu.value === "own") query.set(name, controls[name].value.trim()); else query.delete(name);
    query.delete("h");   // the search's highlight
    history.replaceState(history.state, "", `${location.pathname}?${query}${location.hash}`);
  }

  /** The values, or null when a field has none; each field then says why. */
  function read() {
    const values = {}, bad = [];
    const complain = (name, why) => {
      say(errors[name], why);
      controls[name].setAttribute("aria-invalid", Boolean(why));
      if (why) bad.push(name);
    };
    for (const name of [...SHAPE, ...CARD, "reserve"]) {
      const [value, why] = meaning(name, controls[name].value, words);
      values[name] = value;
      complain(name, why);
    }
    if (values.H && values.Hkv && values.H % values.Hkv) {
      const options = Array.from({ length: values.H }, (_, i) => i + 1).filter((n) => values.H % n === 0);
      complain("Hkv", words.group({ H: values.H, options: options.join(words.comma) }));
    }
    if (values.gib && values.reserve !== null && values.reserve >= values.gib) complain("reserve", words.nothing({ gib: values.gib }));
    for (const name of ["dtype", "gpu"]) values[name] = controls[name].value;
    values.causal = controls.causal.checked;
    const named = bad.map((name) => words.fields[name]);
    say(wrong, bad.length ? words.wrong + named.join(words.comma) + words.stop : "");
    return bad.length ? null : values;
  }

  function show() {
    const card = cards.find(({ key }) => key === controls.gpu.value);
    source.replaceChildren(`${words.sources}${words.colon}${card ? card.source : words.own_source}`);
    const values = read();
    results.replaceChildren();
    const summary = values ? draw(values, card) : wrong.textContent;
    clearTimeout(later);
    if (!silent) later = setTimeout(() => { said.textContent = summary; }, 900);
    silent = false;
    return values;
  }

  form.addEventListener("input", ({ target }) => {
    if (target === link) return;
    if (target === controls.gpu) { const card = cards.find(({ key }) => key === target.value); if (card) for (const name of CARD) controls[name].value = card[name]; }
    else if (CARD.some((name) => controls[name] === target)) controls.gpu.value = "own";
    changed();
  });
  let before = null;   // what the button took away, and brings back
  reset.addEventListener("click", () => {
    const now = { ...Object.fromEntries(Object.entries(controls).map(([name, { value }]) => [name, value])), causal: Number(controls.causal.checked) };
    const back = before;
    fill(back ?? defaults);
    changed(back ? null : now);
  });
  function changed(kept = null) {
    before = kept;
    reset.textContent = before ? shared.undo : words.reset;
    say(notice, "");
    told.textContent = "";
    link.hidden = true;
    if (show()) toAddress();
  }
  copy.addEventListener("click", async () => {
    if (!read()) { told.textContent = words.mend; return; }
    toAddress();
    try {
      await navigator.clipboard.writeText(location.href);
      told.textContent = words.copied;
    } catch {   // not over plain http, or not allowed
      told.textContent = words.here;
      Object.assign(link, { hidden: false, value: location.href });
      link.select();
    }
  });
  addEventListener("popstate", fromAddress);
  fromAddress();

  // What is shown.
  function draw(v, card) {
    const e = BYTES[v.dtype], flashes = v.dtype !== "fp32";
    const n = compute(v);
    const mine = card?.measured ? measured[card.measured] : null;
    const key = (H, Hkv) => [v.B, H, Hkv, v.S, v.d, v.dtype, v.causal ? 1 : 0].join(",");
    const cell = (size, unit = binary) => [make("b", { textContent: unit(size) }), make("small", { textContent: `${group(size)} ${words.bytes}` })];
    const limit = binary(n.limit);
    const dash = () => "–";

    // Memory.
    const weighed = mine?.memory?.[key(v.H, v.Hkv)];
    const rows = [[weighed ? words.alone : words.predicted, cell(n.bytes.naive), flashes ? cell(n.bytes.flash) : dash()]];
    if (weighed) {
      rows.push([words.measured_on({ gpu: mine.gpu }), ...["naive", "flash"].map((side) => {
        const found = weighed[side];
        if (!found) return words.oom;
        const off = BigInt(found[0]) - n.bytes[side];
        return [...cell(BigInt(found[0])), make("small", { textContent: off === 0n ? words.exactly : words.more({ bytes: group(off).replace("-", "−") }) }), kernel(mine, found[1])];
      })]);
    }
    const share = (size) => (size === null ? dash() : `${percent(size, n.limit)} · ${size <= n.limit ? words.fits : words.not}`);
    rows.push([words.of({ limit }), share(n.bytes.naive), flashes ? share(n.bytes.flash) : dash()]);
    rows.push([words.largest, make("b", { textContent: group(n.most.naive) }), flashes ? make("b", { textContent: group(n.most.flash) }) : dash()]);
    const naiveTerms = [[2, "B", "H", "S²", "e"], [4, "B", "H", "S", "d", "e"], ...(v.Hkv < v.H ? [[2, "B", "Hkv", "S", "d", "e"]] : []), ...(v.causal ? [["S²"]] : [])];
    const flashTerms = [
      ...(n.d8 === BigInt(v.d) ? [[2, "B", "(H + Hkv)", "S", "d", "e"]] : [["B", "(H + 2·Hkv)", "S", "d", "e"], ["B", "(H + 2·Hkv)", "S", "d8", "e"], ["B", "H", "S", "d8", "e"]]),
      [4, "B", "H", "S"], [24], ...(n.splits > 1n ? [[4, "n", "B", "H", "S", "(1 + dr)"]] : []),
    ];
    const symbols = { ...v, e, d8: n.d8, n: n.splits, dr: formulas.roundUp(n.d8, n.d8 <= 128n ? 32n : 64n) };
    section(words.memory, table(["", words.naive, words.flash], rows), flashes ? null : make("p", { className: "note" }, `${words.fp32} `, page("pitfalls")), provenance(weighed && mine, "memory", key(v.H, v.Hkv)),
      formula([[words.naive, naiveTerms, n.bytes.naive, "B"], ...(flashes ? [[words.flash, flashTerms, n.bytes.flash, "B"]] : [])], symbols));

    // Prefill.
    const sides = flashes ? ["naive", "flash"] : ["naive"];
    const both = (make) => [make("naive"), flashes ? make("flash") : dash()];
    const prefill = [
      [words.flops, ...both(() => make("b", { textContent: count10(n.flops, "FLOP") }))],
      [words.moved, ...both((side) => [...cell(n.moved[side], decimal), make("small", { textContent: { naive: words.moved_naive, flash: words.moved_flash }[side] })])],
      [words.intensity, ...both((side) => plain(n.roof[side].intensity))],
      ...(flashes ? [[words.ridge, ...both(() => plain(n.ridge))], [words.bound, ...both((side) => ({ compute: words.compute, memory: words.bandwidth })[n.roof[side].bound])], [words.time, ...both((side) => make("b", { textContent: time(n.roof[side].floor_ms) }))]] : []),
    ];
    const naiveMoved = [[v.causal ? 8 : 6, "B", "H", "S²", "e"], [4, "B", "H", "S", "d", "e"], ...(v.causal ? [["S²"], ["⌊3·S²/2⌋"]] : []), ...(v.Hkv < v.H ? [[2, "B", "(H + Hkv)", "S", "d", "e"]] : [])];
    const flopsTerms = [[v.causal ? 2 : 4, "B", "H", "S²", "d"]];
    const clock = mine?.time?.[key(v.H, v.Hkv)], counters = mine?.traffic?.[key(v.H, v.Hkv)];
    const programs = [...new Set([...Object.keys(clock ?? {}), ...Object.keys(counters ?? {})])];
    const name = (impl) => ({ naive: words.naive })[impl] ?? impl;
    const seen = programs.length ? table([words.program, words.ms, words.over, words.traffic, words.kernel], programs.map((impl) => {
      const ms = clock?.[impl], bytes = counters?.[impl], bound = n.roof[impl === "naive" ? "naive" : "flash"].floor_ms;
      return [name(impl), ms ? milliseconds(ms) : dash(), ms ? plain(ms[0] / bound) : dash(), bytes ? decimal(BigInt(Math.round(bytes[0] + bytes[1]))) : dash(), kernel(mine, (ms ?? bytes).at(-1))];
    }), words.measured_on({ gpu: mine.gpu })) : null;
    section(words.prefill, table(["", words.naive, words.flash], prefill), v.causal ? make("p", { className: "hint", textContent: words.causal_note }) : null, seen, provenance(programs.length && mine, clock ? "time" : "traffic", key(v.H, v.Hkv)),
      formula([["F", flopsTerms, n.flops, "FLOP"], [`Q, ${words.naive}`, naiveMoved, n.moved.naive, "B"], ...(flashes ? [[`Q, ${words.flash}`, [[2, "B", "(H + Hkv)", "S", "d", "e"]], n.moved.flash, "B"]] : [])], symbols,
        [...sides.map((side) => line(`F / Q, ${called[side]}`, `${group(n.flops)} / ${group(n.moved[side])} = ${plain(n.roof[side].intensity)} FLOP/B`)), ...(flashes ? [line("P / W", `${v.tflops}·10¹² / ${v.gbps}·10⁹ = ${plain(n.ridge)} FLOP/B`),
          ...sides.map((side) => line(`max(F/P, Q/W), ${called[side]}`, `max(${time(Number(n.flops) / v.tflops / 1e9)}, ${time(Number(n.moved[side]) / v.gbps / 1e6)}) = ${time(n.roof[side].floor_ms)}`))] : [])]));

    // Decode.
    const cached = mine?.decode?.[[v.B, v.H, v.Hkv, v.S, v.d, v.dtype, 0].join(",")];
    section(words.decode, table(["", words.both], [
      [words.cache, cell(n.cache)],
      [words.step_flops, make("b", { textContent: count10(n.stepFlops, "FLOP") })],
      [words.intensity, plain(n.step.intensity)],
      ...(flashes ? [[words.bound, ({ compute: words.compute, memory: words.bandwidth })[n.step.bound]], [words.time, make("b", { textContent: time(n.step.floor_ms) })],
        [words.parts, n.parts === null ? words.parts_only : String(n.parts)]] : []),
    ]), cached ? table([words.program, words.ms, words.over, words.kernel], Object.entries(cached).map(([impl, ms]) => [impl, milliseconds(ms), plain(ms[0] / n.step.floor_ms), kernel(mine, ms[3])]), words.measured_on({ gpu: mine.gpu })) : null,
    provenance(cached && mine, "decode", [v.B, v.H, v.Hkv, v.S, v.d, v.dtype, 0].join(",")),
    formula([["F", [[4, "B", "H", "S", "d"]], n.stepFlops, "FLOP"], ["Q", [[2, "B", "Hkv", "S", "d", "e"]], n.cache, "B"]], symbols,
      flashes ? [line("max(F/P, Q/W)", `max(${time(Number(n.stepFlops) / v.tflops / 1e9)}, ${time(Number(n.cache) / v.gbps / 1e6)}) = ${time(n.step.floor_ms)}`)] : []));

    curve(v, n, mine);
    const numbers = {
      naive: binary(n.bytes.naive), flash: binary(n.bytes.flash), ratio: plain(formulas.quotient(n.bytes.naive, n.bytes.flash)), most_naive: group(n.most.naive), most_flash: group(n.most.flash),
      time: time(n.roof.flash.floor_ms), bound: n.roof.flash.bound === "compute" ? words.compute : words.bandwidth, step: time(n.step.floor_ms),
    };
    const summary = flashes ? words.said(numbers) : words.said_fp32(numbers);
    results.prepend(make("p", { className: "summary", textContent: summary }));
    return summary;
  }

  function section(title, ...parts) {
    results.append(make("h2", { textContent: title }), ...parts.filter(Boolean));
  }

  /** Where the measured numbers come from; else that there are none, and where they are. */
  function provenance(mine, part, key) {
    const box = make("p", { className: "provenance" });
    if (mine) {
      const run = mine.runs[part];
      box.append(words.from, make("strong", { className: "gpu", textContent: mine.gpu }), ` · ${words.source(run)} · `, make("a", { href: root + run.url, textContent: "JSON" }));
      if (run.stale) box.append(" ", make("strong", { className: "stale", textContent: words.stale }));
      return box;
    }
    const selected = cards.find(({ key: name }) => name === controls.gpu.value)?.measured;
    const [slug] = Object.entries(measured).find(([name, found]) => name !== selected && found[part]?.[key]) ?? [];
    const other = slug && cards.find((card) => card.measured === slug);
    box.className = "unmeasured";
    box.append(slug ? words.elsewhere({ gpu: measured[slug].gpu }) : selected ? words.none({ gpu: measured[selected].gpu }) : words.nowhere);
    if (other) {
      const button = make("button", { type: "button", textContent: words.show({ name: other.name }) });
      button.addEventListener("click", () => { controls.gpu.value = other.key; for (const name of CARD) controls[name].value = other[name]; changed(); controls.gpu.focus(); });
      box.append(" ", button);
    }
    return box;
  }

  function page(name) { return make("a", { href: `../${name}/`, textContent: name }); }

  function formula(lines, symbols, more = []) {
    const list = make("dl", {});
    for (const [title, terms, total, unit] of lines) {
      const shown = terms.map((factors) => factors.map(String).join("·")).join(" + ");
      const filled = terms.map((factors) => factors.map((factor) => replaced(String(factor), symbols)).join("·")).join(" + ");
      list.append(make("dt", { textContent: title }), make("dd", {}, make("span", { className: "letters" }, ...letters(shown)), make("span", { className: "filled", textContent: `= ${filled}` }), make("b", { textContent: `= ${group(total)} ${unit}` })));
    }
    list.append(...more.flat());
    return make("details", { className: "formulas", open: true }, make("summary", { textContent: words.formulas }), list);
  }

  function curve(v, n, mine) {
    const flashes = v.dtype !== "fp32", e = BYTES[v.dtype];
    const sizes = { naive: (S) => formulas.naiveBytes(v.B, v.H, v.Hkv, S, v.d, e, v.causal), flash: (S) => formulas.flashBytes(v.B, v.H, v.Hkv, S, v.d, e, v.sms) };
    const sides = flashes ? ["naive", "flash"] : ["naive"];
    const dots = Object.entries(mine?.memory ?? {}).map(([key, found]) => ({ shape: key.split(","), found }))
      .filter(({ shape }) => [v.B, v.H, v.Hkv].join() === shape.slice(0, 3).join() && [v.d, v.dtype, v.causal ? 1 : 0].join() === shape.slice(4).join())
      .flatMap(({ shape, found }) => sides.filter((side) => found[side]).map((side) => ({ side, S: Number(shape[3]), bytes: Number(found[side][0]) })));
    const x0 = Math.min(7, Math.floor(Math.log2(v.S))), x1 = Math.max(17, Math.ceil(Math.log2(v.S)) + 1);
    const lines = Object.fromEntries(sides.map((side) => [side, Array.from({ length: 4 * (x1 - x0) + 1 }, (_, i) => Math.max(2, Math.round(2 ** (x0 + i / 4)))).map((S) => [S, Number(sizes[side](S))])]));
    const all = Object.values(lines).flat().map(([, size]) => Math.log2(size)).concat(Math.log2(Number(n.limit)));
    const y0 = Math.floor(Math.min(...all)), y1 = Math.ceil(Math.max(...all));
    const W = 360, H = 250, left = 50, right = 16, top = 12, bottom = 34;
    const x = (S) => left + ((Math.log2(S) - x0) / (x1 - x0)) * (W - left - right), y = (size) => H - bottom - ((Math.log2(size) - y0) / (y1 - y0)) * (H - top - bottom);
    const parts = [];
    const draw = (name, attributes, text) => parts.push(shape(name, attributes, text));
    const step = Math.max(2, Math.ceil((x1 - x0) / 6));
    for (let k = x0; k <= x1; k += step) { draw("line", { x1: x(2 ** k), x2: x(2 ** k), y1: top, y2: H - bottom, class: "rule" }); draw("text", { x: x(2 ** k), y: H - bottom + 14, "text-anchor": "middle" }, k < 10 ? String(2 ** k) : k < 20 ? `${2 ** (k - 10)}k` : `${2 ** (k - 20)}M`); }
    const rise = Math.max(2, Math.ceil((y1 - y0) / 6));
    for (let k = Math.ceil(y0 / rise) * rise; k <= y1; k += rise) { draw("line", { x1: left, x2: W - right, y1: y(2 ** k), y2: y(2 ** k), class: "rule" }); draw("text", { x: left - 4, y: y(2 ** k) + 4, "text-anchor": "end" }, binary(2n ** BigInt(Math.max(0, k)), 3)); }
    const memory = Number(n.limit);
    draw("line", { x1: left, x2: W - right, y1: y(memory), y2: y(memory), class: "limit" });
    draw("text", { x: left + 4, y: y(memory) - 4, class: "limit" }, `${words.limit}${words.colon}${binary(n.limit)}`);
    for (const side of sides) draw("path", { class: side, d: lines[side].map(([S, size], i) => `${i ? "L" : "M"}${x(S).toFixed(1)} ${y(size).toFixed(1)}`).join("") });
    for (const { side, S, bytes } of dots) draw("circle", { class: `dot ${side}`, cx: x(S), cy: y(bytes), r: 4 });
    for (const side of sides) draw("rect", { class: `here ${side}`, x: x(v.S) - 4.5, y: y(Number(n.bytes[side])) - 4.5, width: 9, height: 9 });
    draw("text", { x: (left + W - right) / 2, y: H - 4, "text-anchor": "middle" }, "S");
    const picture = shape("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": words.chart({ S: group(BigInt(v.S)), naive: binary(n.bytes.naive), flash: flashes ? binary(n.bytes.flash) : "–", limit: binary(n.limit) }) });
    picture.append(...parts);
    const keys = make("p", { className: "keys" }, ...sides.map((side) => make("span", { className: side, textContent: called[side] })), ...(dots.length ? [make("span", { className: "dot", textContent: words.dot })] : []), make("span", { className: "here", textContent: `S = ${group(BigInt(v.S))}` }));
    const lengths = [...new Set([v.S, ...Array.from({ length: 8 }, (_, i) => 2 ** (10 + i))])].sort((a, b) => a - b);
    const points = lengths.map((S) => {
      const naive = sizes.naive(S), flash = flashes ? sizes.flash(S) : null;
      return [group(BigInt(S)), binary(naive), flash === null ? "–" : binary(flash), flash === null ? "–" : plain(formulas.quotient(naive, flash)), ...[naive, flash].map((size) => (size === null ? "–" : size <= n.limit ? words.fits : words.not))];
    });
    section(words.curve, make("figure", { className: "curve" }, picture, keys), make("details", {}, make("summary", { textContent: words.table }), table(["S", words.naive, words.flash, words.times, `${words.naive}${words.colon}${binary(n.limit)}`, `${words.flash}${words.colon}${binary(n.limit)}`], points)));
  }

  function milliseconds([ms, p10, p90]) { return `${plain(ms)} (${plain(p10)} – ${plain(p90)})`; }

  function kernel(mine, at) {
    const text = make("code", { className: "kernel" });
    for (const part of mine.kernels[at].split(/(?<=_)/)) text.append(part, make("wbr"));
    return text;
  }
}

/** Everything that follows from the values, by formulas.js and nothing else. */
export function compute(v) {
  const e = BYTES[v.dtype], { B, H, Hkv, S, d, causal, sms } = v;
  const limit = BigInt(Math.floor((v.gib - v.reserve) * 2 ** 30)), ceilings = { copy_gbps: v.gbps, matmul_tflops: v.tflops };
  const flops = formulas.attentionFlops(B, H, S, d, causal), cache = formulas.kvBytes(B, Hkv, S, d, e), stepFlops = formulas.attentionFlops(B, H, S, d) / BigInt(S);
  const copies = Hkv < H ? cache + formulas.kvBytes(B, H, S, d, e) : 0n;                  // naive() reads k and v and writes them once for each query head
  const moved = {
    naive: formulas.naiveTraffic(B, H, S, d, e, causal) + copies,
    flash: formulas.floorBytes(B, H, S, d, e) / 2n + cache,                                // q and o are half of the floor of as many KV heads
  };
  return {
    limit, flops, cache, stepFlops, moved,
    bytes: { naive: formulas.naiveBytes(B, H, Hkv, S, d, e, causal), flash: formulas.flashBytes(B, H, Hkv, S, d, e, sms) },
    most: { naive: formulas.largestS(limit, (n) => formulas.naiveBytes(B, H, Hkv, n, d, e, causal)), flash: formulas.largestS(limit, (n) => formulas.flashBytes(B, H, Hkv, n, d, e, sms)) },
    d8: formulas.roundUp(d, 8), splits: formulas.kvSplits(B, H, S, formulas.roundUp(d, 8), sms),
    roof: { naive: formulas.underTheRoof(flops, moved.naive, null, ceilings), flash: formulas.underTheRoof(flops, moved.flash, null, ceilings) },
    ridge: formulas.ridge(ceilings), step: formulas.underTheRoof(stepFlops, cache, null, ceilings), parts: d === 128 ? formulas.decodeParts(B, H, Hkv, S, sms) : null,
  };
}

/** [value, complaint] of what was written into a field; digits of any width, and thousands set apart, are understood. */
function meaning(name, written, words) {
  const { least, most, whole } = FIELDS[name];
  let text = written.normalize("NFKC").trim().replace(/^[−–]/, "-");
  if (/^-?\d{1,3}([,_ ]\d{3})+$/.test(text)) text = text.replace(/[,_ ]/g, "");
  if (!text) return [null, words.empty];
  if (!/^[+-]?(\d+\.?\d*|\.\d+)$/.test(text)) return [null, words.letters({ text })];
  const value = Number(text);
  if (whole && !Number.isInteger(value)) return [null, words.fraction];
  if (value < least) return [null, name === "S" && value >= 0 ? words.small_S : words.small({ least })];
  if (value > most) return [null, name === "d" ? words.big_d : name === "S" ? words.big_S({ most: group(BigInt(most)) }) : words.big({ most: group(BigInt(most)) })];
  return [value, ""];
}

function say(element, text) {
  element.textContent = text;
  element.hidden = !text;
}

function table(head, rows, caption = "") {
  const box = make("div", { className: head.length > 3 && caption ? "scroll seen" : "scroll" });
  const element = make("table", {}, ...(caption ? [make("caption", { textContent: caption })] : []),
    make("thead", {}, make("tr", {}, ...head.map((text) => make(text ? "th" : "td", text ? { scope: "col", textContent: text } : {})))),
    make("tbody", {}, ...rows.map(([name, ...cells]) => make("tr", {}, make("th", { scope: "row", textContent: name }), ...cells.map((cell) => make("td", {}, ...[cell].flat()))))));
  box.append(element);
  if (head.length > 3) Object.assign(box, { tabIndex: 0, ariaLabel: caption || head.filter(Boolean).join(", ") }).setAttribute("role", "group");
  return box;
}

function line(title, text) { return [make("dt", { textContent: title }), make("dd", { textContent: text })]; }

/** A formula's letters as <var>, its indices as <sub>. */
function letters(text) {
  return text.split(/(Hkv|d8|dr|[BHSden](?![a-z]))/).filter(Boolean).map((part) => (/^(Hkv|d8|dr|[BHSden])$/.test(part) ? sign(part) : part));
}

function sign(symbol) {
  return symbol.length > 1 ? make("var", {}, symbol[0], make("sub", { textContent: symbol.slice(1) })) : make("var", { textContent: symbol });
}

function replaced(factor, symbols) {
  return factor.replace(/Hkv|d8|dr|[BHSden]/g, (symbol) => symbols[symbol]);
}

/** A whole number with its thousands set apart. */
function group(n) { return String(n).replace(/\B(?=(\d{3})+$)/g, ","); }

/** Four digits, or as many as the number has before its point. */
function plain(x, digits = 4) {
  if (x !== 0 && (Math.abs(x) >= 1e15 || Math.abs(x) < 1e-6)) return x.toExponential(digits - 1);
  return x.toLocaleString("en", { maximumSignificantDigits: Math.max(digits, Math.ceil(Math.log10(Math.abs(x) + 1))) });
}

function scaled(size, base, units, digits) {
  let x = Number(size), i = 0;
  while (x >= base && i < units.length - 1) { x /= base; i++; }
  return `${plain(x, digits)} ${units[i]}`;
}

function binary(size, digits = 4) { return scaled(size, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"], digits); }
function decimal(size) { return scaled(size, 1000, ["B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"], 4); }
function count10(n, unit) { return scaled(n, 1000, ["", "k", "M", "G", "T", "P", "E", "Z", "Y", "R", "Q"].map((prefix) => prefix + unit), 4); }

function time(ms) {
  const [factor, unit] = ms >= 1e3 ? [1e-3, "s"] : ms >= 1 ? [1, "ms"] : ms >= 1e-3 ? [1e3, "µs"] : [1e6, "ns"];
  return `${plain(ms * factor)} ${unit}`;
}

function percent(size, limit) { return `${plain(formulas.quotient(100n * size, limit), 3)} %`; }

function shape(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}

function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  Object.assign(element, properties);
  element.append(...children);
  return element;
}
