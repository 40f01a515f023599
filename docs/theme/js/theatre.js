// The tile theatre: the loads and stores of a naive program and of tiled attention, in their order. tests/test_theatre.py holds the order to
// what examples/io_counter.py and examples/tiled_attention.py do when they run. The build draws its still picture with this file too (Node).

// What crosses: [operation, matrix, first row, last row + 1, first column, last column + 1].

/** One query head of examples/io_counter.py: algorithm_0. It computes every score, with a mask too. */
export function naive({ S, d, Br, Bc }) {
  const events = [];
  const tiles = function* () { for (let i = 0; i < S; i += Br) for (let j = 0; j < S; j += Bc) yield [i, Math.min(i + Br, S), j, Math.min(j + Bc, S)]; };
  for (const [i, r, j, c] of tiles()) {
    if (j === 0) events.push(["load", "q", i, r, 0, d]);
    events.push(["load", "k", j, c, 0, d], ["store", "s", i, r, j, c]);
  }
  for (let i = 0; i < S; i++) events.push(["load", "s", i, i + 1, 0, S], ["store", "p", i, i + 1, 0, S]);
  for (const [i, r, j, c] of tiles()) {
    events.push(["load", "p", i, r, j, c], ["load", "v", j, c, 0, d]);
    if (c === S) events.push(["store", "o", i, r, 0, d]);
  }
  return events;
}

/** One KV head of examples/tiled_attention.py, whose tile of q holds the rows of all query heads that share it. */
export function flash({ S, d, Br, Bc, causal }) {
  const events = [];
  for (let i = 0; i < S; i += Br) {
    const r = Math.min(i + Br, S);
    events.push(["load", "q", i, r, 0, d]);
    for (let j = 0; j < (causal ? r : S); j += Bc) for (const name of "kv") events.push(["load", name, j, Math.min(j + Bc, S), 0, d]);
    events.push(["store", "o", i, r, 0, d], ["store", "lse", i, r, 0, 1]);
  }
  return events;
}

/** The events of a side with the bytes of all heads before each: those that the chip asks for, and those that cross the line to HBM. */
export function trace(side, p) {
  const events = (side === "naive" ? naive : flash)(p), asked = new Float64Array(events.length + 1), crossed = new Float64Array(events.length + 1);
  const seen = { k: 0, v: 0 };   // rows that L2 holds: it keeps k and v, and the squares do not fit
  events.forEach(([, name, r0, r1, c0, c1], n) => {
    const row = (c1 - c0) * (name === "lse" ? 4 : p.e);
    const bytes = (r1 - r0) * row * (side === "flash" && name in seen ? p.kv : p.H);
    asked[n + 1] = asked[n] + bytes;
    crossed[n + 1] = crossed[n] + (!p.l2 || !(name in seen) ? bytes : Math.max(0, r1 - seen[name]) * row * p.kv);
    if (name in seen) seen[name] = Math.max(seen[name], r1);
  });
  return { side, events, asked, crossed, kernels: side === "naive" ? [0, events.findIndex(([, name]) => name === "p") - 1, events.findIndex(([op, name]) => op === "load" && name === "p")] : [0] };
}

/** [events that are over, part of the next] when the chip has asked for `at` bytes. */
function place({ asked }, at) {
  const n = below(asked, at);
  return n === asked.length - 1 ? [n, 0] : [n, (at - asked[n]) / (asked[n + 1] - asked[n])];
}

function below(list, value) {
  let low = 0, high = list.length - 1;
  while (low < high) { const mid = (low + high + 1) >> 1; if (list[mid] <= value) low = mid; else high = mid - 1; }
  return low;
}

// The picture: [kind, class, x, y, width, height] or [text, class, x, y, what it says]. In HBM areas are to scale.

const WIDE = 440, HIGH = 370, SQUARE = 132, TOP = 62, LEFT = { s: 62, p: 246 }, LINE = 222, CHIP = 256;
const SLOTS = { q: 24, k: 84, s: 146, p: 232, v: 304, o: 376 }, FLOOR = 302, UNIT = 66 / 256;

function picture(t, p, [n, part], words) {
  const { events, side } = t, scale = SQUARE / p.S, thick = Math.max(2.5, scale * p.d), shapes = [];
  const put = (...shape) => shapes.push(shape);
  const kernel = n === events.length ? t.kernels.length : t.kernels.filter((first) => first <= n).length - 1;
  const strips = { q: [LEFT.s - 5 - thick, TOP, thick, SQUARE], k: [LEFT.s, TOP - 5 - thick, SQUARE, thick], v: [LEFT.p, TOP - 5 - thick, SQUARE, thick], o: [LEFT.p + SQUARE + 5, TOP, thick, SQUARE] };
  const inHbm = ([, name, r0, r1, c0, c1]) => {
    if (name in LEFT) return [LEFT[name] + c0 * scale, TOP + r0 * scale, (c1 - c0) * scale, Math.max((r1 - r0) * scale, .8)];
    const [x, y, w, h] = strips[name === "lse" ? "o" : name];
    return w < h ? [x, y + r0 * scale, w, (r1 - r0) * scale] : [x + r0 * scale, y, (r1 - r0) * scale, h];
  };
  const onChip = ([, name, r0, r1, c0, c1]) => {
    const [w, h] = name === "k" ? [r1 - r0, c1 - c0] : name === "lse" ? [16, r1 - r0] : [Math.min(c1 - c0, 280), r1 - r0];
    return [name === "lse" ? SLOTS.o - 12 : SLOTS[name], FLOOR, w * UNIT, Math.max(h * UNIT, 2)];
  };
  const last = (name, op) => { for (let at = n - 1; at >= t.kernels[Math.min(kernel, t.kernels.length - 1)]; at--) if (events[at][1] === name && events[at][0] === op) return at; return -1; };

  put("rect", "hbm", 0, 0, WIDE, LINE);
  put("rect", "sram", 0, CHIP, WIDE, HIGH - CHIP);
  put("text", "where", 10, 17, words.hbm);
  put("text", "where", 10, CHIP + 20, words.chip);
  if (p.l2) {
    put("rect", "l2", 0, LINE + 5, WIDE, 24);
    put("text", "where", 10, LINE + 22, words.l2);
    put("text", "amount end", WIDE - 10, LINE + 22, say(words.serves, { bytes: size(amount(t.asked, n, part) - amount(t.crossed, n, part)) }));
  }
  for (const [name, [x, y, w, h]] of Object.entries(strips)) {
    put("rect", "strip", x, y, w, h);
    const [lx, ly, anchor] = { q: [x - 5, y + SQUARE / 2 + 5, "end"], k: [x + w + 6, y + h / 2 + 5, ""], v: [x + w + 6, y + h / 2 + 5, ""], o: [x + w + 5, y + SQUARE / 2 + 5, ""] }[name];
    put("text", `letter ${anchor}`, lx, ly, name);
  }
  const doneO = kernel === t.kernels.length ? p.S : side === "naive" && kernel < 2 ? 0 : events[last("o", "store")]?.[3] ?? 0;
  if (doneO) put("rect", "tile o", ...inHbm(["", "o", 0, doneO, 0, p.d]));

  for (const [name, x] of Object.entries(LEFT)) {
    put("rect", side === "naive" ? "square" : "ghost", x, TOP, SQUARE, SQUARE);
    if (side === "flash") { put("text", "absent middle", x + SQUARE / 2, TOP + SQUARE / 2 + 5, words.absent); continue; }
    const first = name === "s" ? 0 : 1;   // the kernel that writes it; the next one reads it
    const regions = ["store", "load"].map((op, i) => (kernel > first + i ? [0, p.S, p.S] : kernel < first + i ? [0, 0, 0] : ([, , r0, r1, , c1] = events[last(name, op)] ?? [0, 0, 0, 0, 0, 0]) => [r0, r1, c1]));
    for (const [i, region] of regions.entries()) {
      const [r0, r1, c1] = typeof region === "function" ? region() : region;
      const look = i ? "read" : "tile s";
      if (c1 === p.S) put("rect", look, x, TOP, SQUARE, r1 * scale);
      else if (c1) { if (r0) put("rect", look, x, TOP, SQUARE, r0 * scale); put("rect", look, x, TOP + r0 * scale, c1 * scale, (r1 - r0) * scale); }
    }
    const moved = ["store", "load"].map((op) => through(t, name, op, n, part)), unit = t.crossed.at(-1) >= 4e9 ? ["GB", 1e9, 2] : ["MB", 1e6, 0];
    put("text", "letter end", x - 6, TOP + SQUARE + 20, name);
    put("text", "amount", x, TOP + SQUARE + 20, `↑ ${(moved[0] / unit[1]).toFixed(unit[2])}  ↓ ${(moved[1] / unit[1]).toFixed(unit[2])} ${unit[0]}`);
  }
  put("line", "line", 0, LINE, WIDE, LINE);

  const now = events[n];
  if (!now) return shapes;
  const q = last("q", "load"), held = {};
  for (const name of side === "naive" ? [["q", "k"], ["s"], ["p", "v"]][kernel] : ["q", "k", "v"]) {
    const at = last(name, "load");
    if (at >= 0 && at >= q && !(now[0] === "load" && now[1] === name) && !(side === "naive" && kernel === 1 && now[0] === "load") && !(name === "k" && now[1] === "q")) held[name] = events[at];
  }
  if (side === "naive" && now[0] === "store") held[now[1]] = now;
  if (side === "naive" && kernel === 2 && now[0] !== "store") held.o = [0, "o", ...rowsOf(events, n), 0, p.d];
  if (side === "flash" && q >= 0 && now[1] !== "q") {
    held.o = ["", "o", events[q][2], events[q][3], 0, p.d];
    if (held.v && held.v[2] === held.k?.[2]) held.s = ["", "s", events[q][2], events[q][3], held.k[2], held.k[3]];
  }
  for (const [name, event] of Object.entries(held)) {
    const [x, y, w, h] = onChip(event);
    put("rect", `tile ${name}`, x, y, w, h);
    put("text", "letter middle", x + w / 2, FLOOR - 6, name);
    if (side === "flash" && name === "o") for (const i of [0, 1]) put("rect", "tile m", x - 12 + 6 * i, y, 4, h);
    if (side === "naive" || name !== "o") put("rect", `lit ${name}`, ...inHbm(event));
  }
  const [x, , w, h] = onChip(now), source = t.crossed[n + 1] === t.crossed[n] ? [x, LINE + 5, w, Math.min(h, 24)] : inHbm(now);   // L2 serves what it has
  const [from, to] = now[0] === "load" ? [source, onChip(now)] : [onChip(now), inHbm(now)];
  put("rect", `tile moves ${now[1]}`, ...from.map((value, i) => value + (to[i] - value) * part));
  return shapes;
}

/** The rows of the tile of p that is at work. */
function rowsOf(events, n) { return events[events[n][1] === "p" ? n : n - 1].slice(2, 4); }

/** Bytes of one square that went one way. */
function through({ events, crossed, kernels }, name, op, n, part) {
  let sum = 0;
  const key = `${name} ${op}`, memo = (events.memo ??= {}), all = (memo[key] ??= events.reduce((list, event, at) => { if (event[0] === op && event[1] === name) list.push(at); return list; }, []));
  const over = all.length && n > all[0] ? below(all, n - 1) + 1 : 0;
  const each = all.length ? crossed[all[0] + 1] - crossed[all[0]] : 0, whole = (events[all[0]][3] - events[all[0]][2]) * (events[all[0]][5] - events[all[0]][4]);
  if (over) { const [, , r0, r1, c0, c1] = events[all[over - 1]], S = events[kernels[1]][5]; sum = ((r0 * S + (r1 - r0) * c1) / whole) * each; }
  return sum + (all[over] === n ? part * (crossed[n + 1] - crossed[n]) : 0);
}

function amount(sums, n, part) { return sums[n] + (n + 1 < sums.length ? part * (sums[n + 1] - sums[n]) : 0); }

const size = (bytes) => (bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : bytes >= 1e6 ? `${(bytes / 1e6).toFixed(0)} MB` : `${(bytes / 1e3).toFixed(0)} kB`);
const say = (word, values) => (typeof word === "function" ? word(values) : word.replace(/\{(\w+)\}/g, (_, name) => values[name]));
const round = (x) => Math.round(x * 10) / 10;

function svg(shapes) {
  return shapes.map(([kind, look, x, y, ...rest]) => (kind === "text" ? `<text class="${look}" x="${round(x)}" y="${round(y)}">${rest[0]}</text>`
    : kind === "line" ? `<path class="${look}" d="M${x} ${y}H${rest[0]}"/>` : `<rect class="${look}" x="${round(x)}" y="${round(y)}" width="${round(rest[0])}" height="${round(rest[1])}"/>`)).join("");
}

/** The sum behind a side's last count, as text. */
function formula(side, p, t) {
  const stream = side === "flash" && p.causal && !p.l2 ? t.events.filter(([, name]) => name === "k").reduce((sum, [, , r0, r1]) => sum + r1 - r0, 0).toLocaleString("en") : p.l2 ? "S" : `${Math.ceil(p.S / p.Br)}·S`;
  return side === "naive" ? `${p.H} · ${p.e} B · (4·S² + 2·S·d${p.l2 ? "" : ` + 2·${stream}·d`})${p.l2 ? ` + ${p.kv} · ${p.e} B · 2·S·d` : ""}`
    : `${p.H} · (${p.e} B · 2·S·d + 4 B · S) + ${p.kv} · ${p.e} B · 2·${stream}·d`;
}

/** What hardware counters saw of this shape: [whose program, bytes]. */
function counted(side, p, measured) {
  if (p.kv !== p.H || (!p.l2 && p.Br !== 128)) return [];   // the tiles decide only what the chip asks for
  return measured.filter(([impl, , S, causal]) => S === p.S && causal === p.causal && (impl === "naive") === (side === "naive")).map(([, name, , , dram, sm]) => [name, p.l2 ? dram : sm]);
}

function texts(side, t, p, [n, part], words, { measured, gpu }) {
  const event = t.events[n], total = t.crossed.at(-1), now = amount(t.crossed, n, part);
  const tiles = { i: event && Math.floor((event[1] === "k" || event[1] === "v" ? lastRow(t, n) : event[2]) / p.Br) + 1, n: Math.ceil(p.S / p.Br), j: event && Math.floor(event[2] / p.Bc) + 1, m: Math.ceil(p.S / p.Bc) };
  const kernel = t.kernels.filter((first) => first <= n).length, rows = counted(side, p, measured);
  return {
    count: size(now), share: now, total,
    now: !event ? words.over : side === "naive" ? [words.kernel1, words.kernel2, words.kernel3][kernel - 1] : say(event[1] === "k" || event[1] === "v" ? words.streams : event[1] === "q" ? words.loads : words.stores, tiles),
    ends: say(words.ends, { bytes: size(total), formula: formula(side, p, t) }),
    counted: rows.length ? say(p.l2 ? words.counted : words.counted_chip, { gpu, all: rows.map(([name, bytes]) => say(words.by, { name, bytes: size(bytes) })).join(words.comma) }) : "\u00a0",
  };
}

function lastRow({ events }, n) { while (events[n][1] !== "q") n--; return events[n][2]; }

/** Both sides as they stand without scripts: {side: {svg, shapes, count, …}}. The build calls it. */
export function still(data, words) {
  const { start, at } = data;
  const traces = ["naive", "flash"].map((side) => trace(side, start)), all = traces[0].asked.at(-1);
  return Object.fromEntries(traces.map((t) => {
    const here = place(t, at * all), shapes = picture(t, start, here, words);
    return [t.side, { shapes, svg: svg(shapes), part: t.crossed[here[0]] / traces[0].crossed.at(-1), ...texts(t.side, t, start, here, words, data) }];
  }));
}

// In the page.

const FIRST = 8, EACH = 450, REST = 13_000, STILLS = 24;   // steps that are shown one by one, ms each; ms of all others; steps of who wants less motion

export default function widget(element, words) {
  const data = JSON.parse(element.querySelector("script").textContent), p = { ...data.start };
  const find = (selector) => element.querySelector(selector), lists = data.choices;
  const play = find(".play"), back = find(".back"), forward = find(".forward"), scrub = find(".scrub"), status = find(".announced");
  const names = { naive: words.naive, flash: words.flash };
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  let traces, marks, at, frame = 0, timer = 0;

  for (const name of Object.keys(lists)) find(`[name=${name}]`).addEventListener("input", ({ target }) => { p[name] = lists[name][target.value]; rebuild(); });
  for (const name of ["causal", "l2"]) find(`[name=${name}]`).addEventListener("change", ({ target }) => { p[name] = target.checked; rebuild(); });
  play.addEventListener("click", () => (frame || timer ? pause() : start()));
  back.addEventListener("click", () => step(-1));
  forward.addEventListener("click", () => step(1));
  scrub.addEventListener("input", () => { pause(); draw(marks[scrub.value]); });
  rebuild(data.at);

  /** New traces for what was chosen, at the same part of the way. */
  function rebuild(part = at / end()) {
    pause();
    traces = ["naive", "flash"].map((side) => trace(side, p));
    marks = Float64Array.from(new Set([...traces[0].asked, ...traces[1].asked])).sort();
    scrub.max = marks.length - 1;
    for (const [name, list] of Object.entries(lists)) {
      const input = find(`[name=${name}]`);
      input.value = list.indexOf(p[name]);
      input.nextElementSibling.textContent = list[input.value];
      input.setAttribute("aria-valuetext", list[input.value]);
    }
    for (const name of ["causal", "l2"]) find(`[name=${name}]`).checked = p[name];
    draw(part * end());
  }

  function end() { return traces[0].asked.at(-1); }

  function step(by) {
    pause();
    const n = below(marks, at);
    draw(marks[Math.max(0, Math.min(by < 0 && marks[n] < at ? n : n + by, marks.length - 1))]);
    tell();
  }

  function start() {
    if (at >= end()) draw(0);
    said(words.pause);
    if (calm.matches) {
      timer = setInterval(() => { draw(marks[below(marks, Math.min(end(), at + end() / STILLS))]); if (at >= end()) pause(); }, 700);
      return;
    }
    const from = below(marks, at), begun = performance.now(), single = from < FIRST ? FIRST - from : 0, then = marks[from + single];
    const first = at;
    frame = requestAnimationFrame(function show(time) {
      const passed = Math.max(0, time - begun), steps = passed / EACH, n = from + Math.floor(steps);
      const rest = Math.min(1, (passed - single * EACH) / REST);
      draw(steps < single ? marks[n] + (steps % 1) * (marks[n + 1] - marks[n]) : (single ? then : first) + (end() - (single ? then : first)) * rest ** 1.6);
      if (rest < 1) frame = requestAnimationFrame(show); else { frame = 0; pause(); }
    });
  }

  function pause() {
    cancelAnimationFrame(frame);
    clearInterval(timer);
    if (frame || timer || play.textContent !== words.play) { said(words.play); if (at !== undefined) tell(); }
    frame = timer = 0;
  }

  function said(word) { play.textContent = word; }

  function tell() { status.textContent = traces.map((t) => `${names[t.side]}${words.colon}${find(`.${t.side} .count`).textContent}, ${find(`.${t.side} .now`).textContent}`).join(" "); }

  function draw(to) {
    at = Math.min(to, end());
    const most = traces[0].crossed.at(-1);
    for (const t of traces) {
      const box = find(`.side.${t.side}`), here = place(t, at), text = texts(t.side, t, p, calm.matches ? [here[0], 0] : here, words, data);
      box.querySelector("svg g").innerHTML = svg(picture(t, p, calm.matches ? [here[0], 0] : here, words));
      for (const name of ["count", "now", "ends", "counted"]) box.querySelector(`.${name}`).textContent = text[name];
      box.querySelector(".share").setAttribute("width", most ? (100 * text.share) / most : 0);
    }
    const n = below(marks, at), held = document.activeElement;
    scrub.value = n;
    scrub.setAttribute("aria-valuetext", traces.map((t) => `${names[t.side]} ${find(`.${t.side} .count`).textContent}`).join(", "));
    back.disabled = at === 0;
    forward.disabled = at >= end();
    if (held?.disabled) scrub.focus({ preventScroll: true });
  }
}
