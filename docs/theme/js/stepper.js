// Online softmax, step by step. Every value comes from examples/online_softmax.py: for the lesson's example the build ran it,
// for a reader's scores Python in the page runs it. Nothing is computed here but places on the screen.
import { Python } from "./python.js";

const PHASES = ["load", "scores", "max", "rescale", "weights", "l", "o"];
const BYTES = 2;   // of a number, as in fp16 and bf16
const PAUSE = 1400;
const show = (x, digits = 3) => (x === "-inf" ? "−∞" : Math.abs(x) >= 1e6 ? x.toExponential(2) : x.toFixed(digits)).replace("-", "−");
const list = (row, digits) => row.map((x) => show(x, digits)).join(", ");

const WORDS = {
  en: {
    comma: ", ", colon: ": ", order: "Keys", given: "as given", reversed: "reversed", own: "your scores", width: "Tile width",
    start: "To the start", back: "Back", play: "Play", pause: "Pause", forward: "Forward", end: "To the end",
    stage: "Online softmax, step by step. Arrow keys go back and forward, Home and End to the ends.",
    position: (i, n) => `Step ${i} of ${n}`, hbm: "HBM", chip: "On the chip", key: "key", state: "state", before: "before", after: "after", tile: "tile", tileMax: "largest of the tile",
    flash: (now, all) => `flash: ${now} of ${all} bytes`, naive: (now, all) => `naive: ${now} of ${all} bytes`,
    naiveAt: ["reads q and K", "writes the row of scores", "reads it again", "writes the row of weights", "reads it again, and V", "writes o"], kernel: (k) => `kernel ${k} of 3`,
    grid: (S) => `The naive program stores the row of scores, ${S} numbers here; for all queries it is S × S = ${S} × ${S}.`,
    note: "One query row, 2 bytes a number. Naive's three kernels advance beside the walk.",
    init: () => "Nothing is read yet but q: m = −∞, ℓ = 0, O = 0.",
    load: (t, n, all, names) => `Tile ${n} of ${all}: ${names} and the values behind them cross the line.`,
    scores: (t) => `Scores of the tile: ${list(t.s)}.`,
    max: (t) => t.m === "-inf" ? "Every key so far is hidden: m stays −∞." : t.m_old === "-inf" ? `m becomes ${show(t.m)}, the largest score so far.`
      : t.m > t.m_old ? `The tile's largest score, ${show(t.tile_max)}, is above m = ${show(t.m_old)}: m becomes ${show(t.m)}.` : `The tile's largest score, ${show(t.tile_max)}, is not above m: m stays ${show(t.m)}.`,
    rescale: (t) => t.m_old === "-inf" ? "Nothing to rescale yet: α = 0." : t.rescale === 1 ? "m did not grow, so α = 1 and the sums stay." : `α = exp(${show(t.m_old)} − ${show(t.m).replace(/^−(.*)/, "(−$1)")}) = ${show(t.rescale, 6)}: the sums were measured from a maximum that is now too low.`,
    weights: (t) => `Weights measured from m: ${list(t.p, 6)}.`,
    l: (t) => `ℓ = ${show(t.rescale, 6)} × ${show(t.l_old, 6)} + ${show(t.l_tile, 6)} = ${show(t.l, 6)}.`,
    o: (t) => `O, rescaled, plus the tile's weighted values: (${list(t.o)}).`,
    result: (w, bytes, naive) => `One division at the end: o = O / ℓ. ${bytes} bytes crossed the line, ${naive} with naive.`,
    yours: "Your own scores", ask: "1 to 12 scores, with commas; -inf hides a key", go: "Run in Python",
    wrong: "Write 1 to 12 numbers or -inf, with commas between them.",
    fetch: (mb) => `The button starts Python (${mb} MB at the first time) and runs online_softmax.py on your scores.`,
    loading: "Loading Python…", ran: (version) => `Run by Python ${version}.`, failed: (why) => `Python could not run it (${why}).`,
  },
  zh: {
    comma: "、", colon: "：", order: "key 的顺序", given: "原序", reversed: "逆序", own: "自己的分数", width: "分块宽度",
    start: "回到开头", back: "后退", play: "播放", pause: "暂停", forward: "前进", end: "跳到结尾",
    stage: "在线 softmax 逐步演示。左右方向键后退、前进，Home 和 End 跳到两端。",
    position: (i, n) => `第 ${i} 步，共 ${n} 步`, hbm: "HBM", chip: "片上", key: "key", state: "状态", before: "之前", after: "之后", tile: "当前块", tileMax: "块内最大",
    flash: (now, all) => `flash：${now} / ${all} 字节`, naive: (now, all) => `朴素：${now} / ${all} 字节`,
    naiveAt: ["读 q 和 K", "写出一行分数", "再读这一行", "写出一行权重", "再读权重，并读 V", "写出 o"], kernel: (k) => `第 ${k} 个 kernel，共 3 个`,
    grid: (S) => `朴素程序要存下这一行分数，这里是 ${S} 个数；所有 query 合起来就是 S × S = ${S} × ${S}。`,
    note: "只看一行 query，每个数 2 字节。朴素实现的三个 kernel 与演示同步推进。",
    init: () => "除 q 外还没有读任何数据：m = −∞，ℓ = 0，O = 0。",
    load: (t, n, all, names) => `第 ${n} 块，共 ${all} 块：${names} 及对应的 value 越过那条线。`,
    scores: (t) => `本块的分数：${list(t.s)}。`,
    max: (t) => t.m === "-inf" ? "到目前为止所有 key 都被遮住：m 仍是 −∞。" : t.m_old === "-inf" ? `m 变为 ${show(t.m)}，即目前最大的分数。`
      : t.m > t.m_old ? `块内最大值 ${show(t.tile_max)} 超过 m = ${show(t.m_old)}：m 变为 ${show(t.m)}。` : `块内最大值 ${show(t.tile_max)} 没有超过 m：m 仍是 ${show(t.m)}。`,
    rescale: (t) => t.m_old === "-inf" ? "还没有需要重缩放的内容：α = 0。" : t.rescale === 1 ? "m 没有变大，α = 1，两个和保持不变。" : `α = exp(${show(t.m_old)} − ${show(t.m).replace(/^−(.*)/, "(−$1)")}) = ${show(t.rescale, 6)}：之前的和以旧的最大值为基准，现在要改用新的。`,
    weights: (t) => `以 m 为基准的权重：${list(t.p, 6)}。`,
    l: (t) => `ℓ = ${show(t.rescale, 6)} × ${show(t.l_old, 6)} + ${show(t.l_tile, 6)} = ${show(t.l, 6)}。`,
    o: (t) => `O 先重缩放，再加上本块 value 的加权和：(${list(t.o)})。`,
    result: (w, bytes, naive) => `最后只除一次：o = O / ℓ。越过那条线的共 ${bytes} 字节，朴素实现是 ${naive} 字节。`,
    yours: "换成自己的分数", ask: "1 到 12 个分数，用逗号分隔；-inf 表示遮住该 key", go: "用 Python 运行",
    wrong: "请写 1 到 12 个数或 -inf，用逗号分隔。",
    fetch: (mb) => `点按钮会启动 Python（首次加载 ${mb} MB），用你的分数运行 online_softmax.py。`,
    loading: "正在加载 Python…", ran: (version) => `由 Python ${version} 算出。`, failed: (why) => `Python 未能运行（${why}）。`,
  },
};
let count = 0;

export default function widget(element) {
  const words = WORDS[document.documentElement.lang.startsWith("zh") ? "zh" : "en"];
  const { file, root, bytes } = element.dataset;
  const sets = JSON.parse(element.querySelector("script").textContent);
  const rows = [...element.querySelectorAll(".steps > li")];
  element.querySelector(".walk").remove();
  const id = `stepper-${++count}`;
  let order = "reversed", walk = sets.reversed.walks[1], at = 0, timer = 0;

  // What is pressed.
  const orders = make("select", { id: `${id}-order` }), widths = make("select", { id: `${id}-width` });
  const buttons = { start: "|◀\uFE0E", back: "◀\uFE0E", play: words.play, forward: "▶\uFE0E", end: "▶\uFE0E|" };
  for (const [name, sign] of Object.entries(buttons)) {
    buttons[name] = make("button", { type: "button", textContent: sign, title: words[name], ariaLabel: words[name], className: name === "forward" ? "primary" : "" });
  }
  const position = make("span", { className: "status" });
  const bar = make("div", { className: "bar" }, label(words.order, orders), label(words.width, widths), ...Object.values(buttons), position);

  // What is seen.
  const keys = make("div", { className: "keys" }), chip = make("div", { className: "chip" }), grid = make("div", { className: "grid" });
  const flash = meter("flash"), naive = meter("naive");
  const stage = make("div", { className: "stage", tabIndex: 0, ariaLabel: words.stage }, make("p", { className: "where", textContent: words.hbm }), keys, make("div", { className: "line" }, flash.box, naive.box),
    make("p", { className: "where", textContent: words.chip }), chip);
  stage.setAttribute("role", "group");
  const say = make("p", { className: "say" });
  say.setAttribute("role", "status");
  const aside = make("div", { className: "aside" }, grid, make("p", { className: "hint" }));
  element.prepend(bar, say, stage);
  element.querySelector(".steps").after(aside);

  // A reader's scores.
  const input = make("input", { id: `${id}-scores`, value: list(sets.reversed.scores).replaceAll("−", "-"), spellcheck: false, autocomplete: "off" });
  const go = make("button", { type: "button", textContent: words.go }), told = make("p", { className: "hint", textContent: words.fetch((bytes / 1e6).toFixed(0)) });
  told.setAttribute("role", "status");
  element.append(make("details", { className: "own" }, make("summary", { textContent: words.yours }), make("div", { className: "bar" }, label(words.ask, input), go), told));
  const python = new Python({ bytes: Number(bytes) });

  orders.addEventListener("change", () => choose(orders.value));
  widths.addEventListener("change", () => { walk = sets[order].walks[widths.value - 1]; move(0); });
  buttons.start.addEventListener("click", () => move(0));
  buttons.back.addEventListener("click", () => move(at - 1));
  buttons.forward.addEventListener("click", () => move(at + 1));
  buttons.end.addEventListener("click", () => move(last()));
  buttons.play.addEventListener("click", () => (timer ? pause() : play()));
  stage.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last() }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    move(to);
  });
  go.addEventListener("click", compute);
  input.addEventListener("keydown", (event) => event.key === "Enter" && compute());
  choose("reversed");

  function last() { return walk.tiles.length * PHASES.length + 1; }

  function choose(name, width = 2) {
    order = name;
    orders.replaceChildren(...["reversed", "given", "own"].filter((key) => sets[key]).map((key) => make("option", { value: key, textContent: words[key], selected: key === name })));
    const { walks } = sets[name];
    walk = walks[Math.min(width, walks.length) - 1];
    widths.replaceChildren(...walks.map(({ block }) => make("option", { value: block, textContent: block, selected: block === walk.block })));
    move(0);
  }

  function move(to) { pause(); draw(to); }

  function play() {
    if (at === last()) draw(0);
    buttons.play.textContent = buttons.play.title = buttons.play.ariaLabel = words.pause;
    say.setAttribute("aria-live", "off");   // a screen reader is told when it pauses
    timer = setInterval(() => { draw(at + 1); if (at === last()) pause(); }, PAUSE);
  }

  function pause() {
    if (!timer) return;
    clearInterval(timer);
    timer = 0;
    buttons.play.textContent = buttons.play.title = buttons.play.ariaLabel = words.play;
    say.setAttribute("aria-live", "polite");
    say.textContent = `${say.textContent} `;
  }

  function draw(to) {
    at = Math.max(0, Math.min(to, last()));
    const ended = at === last(), begun = at > 0;
    const n = ended ? walk.tiles.length - 1 : begun ? Math.floor((at - 1) / PHASES.length) : -1;
    const phase = ended ? "end" : begun ? PHASES[(at - 1) % PHASES.length] : "init";
    const tile = walk.tiles[n];
    const reached = (name) => ended || (begun && PHASES.indexOf(phase) >= PHASES.indexOf(name));
    element.dataset.phase = phase;
    position.textContent = words.position(at, last());
    for (const row of rows) {
      row.classList.toggle("lit", row.dataset.step === phase);
      if (row.dataset.step === phase) row.setAttribute("aria-current", "step"); else row.removeAttribute("aria-current");
    }
    const held = document.activeElement;
    buttons.back.disabled = buttons.start.disabled = !begun;
    buttons.forward.disabled = buttons.end.disabled = ended;
    if (held?.disabled) stage.focus({ preventScroll: true });

    const { scores } = sets[order];
    const name = (j) => `k${order === "reversed" ? scores.length - j : j + 1}`;
    keys.replaceChildren(...scores.map((_, j) => {
      const now = tile && !ended && j >= tile.start && j < tile.stop;
      const gone = tile && (ended || j < tile.start);
      return make("span", { className: now ? "now" : gone ? "gone" : "", textContent: name(j).replace("k", words.key + " ") });
    }));
    lit(keys, phase === "load");

    chip.replaceChildren();
    const after = (name, value) => (tile && reached(name) ? value : null);
    if (tile && !ended) {
      const columns = tile.s.map((s, i) => make("div", {},
        make("b", { textContent: name(tile.start + i) }),
        lit(make("span", { textContent: reached("scores") ? `s = ${show(s)}` : "s" }), phase === "scores"),
        lit(make("span", { textContent: reached("weights") ? `p = ${show(tile.p[i])}` : "p" }, size(reached("weights") ? tile.p[i] : 0)), phase === "weights")));
      chip.append(make("div", { className: "tile" }, ...columns));
    }
    const zero = walk.tiles[0].o_old;
    const state = [
      ["m", tile ? tile.m_old : "-inf", after("max", tile?.m), phase === "max", 3],
      ["α", null, after("rescale", tile?.rescale), phase === "rescale", 6],
      ["ℓ", tile ? tile.l_old : 0, after("l", tile?.l), phase === "l", 6],
      ["O", tile ? tile.o_old : zero, after("o", tile?.o), phase === "o", 3],
    ];
    const table = make("table", { className: "state" }, make("caption", { textContent: words.state }), make("thead", {}, line("th", ["", words.before, words.after])), make("tbody", {},
      ...state.map(([symbol, old, now, on, digits]) => lit(line("td", [symbol, text(old, digits), text(now, digits)]), on, `state-${symbol}`))));
    if (tile && reached("max") && !ended) table.tBodies[0].rows[0].cells[1].append(make("small", { textContent: ` ${words.tileMax} ${show(tile.tile_max)}` }));
    chip.append(table);
    if (ended) chip.append(lit(make("output", { className: "result", textContent: `o = [${walk.result.map((x) => x.toFixed(6)).join(", ")}]` }), true));

    const total = walk.naive.reduce((sum, [, numbers]) => sum + numbers, 0);
    const crossed = ended ? walk.crossed : tile ? tile.crossed : walk.query;
    const done = Math.floor((at / last()) * walk.naive.length);
    const sofar = walk.naive.slice(0, done).reduce((sum, [, numbers]) => sum + numbers, 0);
    flash.set(crossed, total, words.flash(crossed * BYTES, walk.crossed * BYTES));
    const doing = Math.max(done - 1, 0);
    naive.set(sofar, total, `${words.naive(sofar * BYTES, total * BYTES)}${done ? ` · ${words.kernel(Math.floor(doing / 2) + 1)}${words.colon}${words.naiveAt[doing]}` : ""}`);
    const S = scores.length;
    grid.style.gridTemplateColumns = `repeat(${S}, 1fr)`;
    grid.replaceChildren(...Array.from({ length: S * S }, (_, i) => make("i", { className: i < S ? (done >= 4 ? "row p" : done >= 2 ? "row s" : "row") : "" })));
    aside.querySelector(".hint").textContent = `${words.grid(S)} ${words.note}`;

    say.textContent = ended ? words.result(walk, walk.crossed * BYTES, total * BYTES) : tile
      ? words[phase](tile, n + 1, walk.tiles.length, Array.from({ length: tile.stop - tile.start }, (_, i) => name(tile.start + i)).join(words.comma)) : words.init();
  }

  async function compute() {
    if (go.disabled) return;
    const scores = input.value.split(/[,，\s]+/).filter(Boolean).map((part) => part.replace("−", "-").replace(/^-(∞|inf(inity)?)$/i, "-inf"));
    if (!scores.length || scores.length > 12 || !scores.every((part) => part === "-inf" || (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(part) && Math.abs(part) < 1e300))) {
      told.textContent = words.wrong;
      return;
    }
    go.disabled = true;
    told.textContent = words.loading;
    try {
      const files = {};
      for (const [name, address] of [[file, `${root}examples/${file}`], ["online_trace.py", `${root}assets/py/online_trace.py`]]) {
        const response = await fetch(address);
        if (!response.ok) throw new Error(`${name}: ${response.status}`);
        files[name] = await response.text();
      }
      const version = await python.start(({ loaded, total }) => { told.textContent = `${words.loading} ${Math.floor((100 * loaded) / total)} %`; });
      let out = "", err = "";
      const end = await python.run(files, "online_trace.py", { argv: scores, onStdout: (text) => { out += text; }, onStderr: (text) => { err += text; } });
      if (!end.ok) throw new Error(err.trim().split("\n").at(-1) || end.error?.message);
      sets.own = JSON.parse(out);
      choose("own");
      told.textContent = words.ran(version);
      stage.focus();
    } catch (error) {
      told.textContent = words.failed(error.message);
    }
    go.disabled = false;
  }
}

function text(value, digits) { return value === null ? "" : Array.isArray(value) ? `(${list(value, digits)})` : show(value, digits); }

function lit(element, on, name = "") {
  if (name) element.classList.add(name);
  element.classList.toggle("lit", on);
  return element;
}

function line(kind, cells) {
  return make("tr", {}, ...cells.map((cell, i) => (i === 0 && kind === "td" ? make("th", { scope: "row", textContent: cell }) : make(i === 0 && !cell ? "td" : kind, { textContent: cell }))));
}

/** A weight is at most 1. */
function size(weight) {
  const bar = make("i", { className: "size" });
  bar.style.width = `${100 * weight}%`;
  return bar;
}

function meter(name) {
  const fill = make("i"), words = make("span");
  const box = make("div", { className: `meter ${name}` }, words, make("div", { className: "track" }, fill));
  return { box, set(now, scale, said) { words.textContent = said; fill.style.width = `${(100 * now) / scale}%`; } };
}

function label(text, control) { return make("label", { textContent: `${text} ` }, control); }

function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) { element[key] = value; }
  element.append(...children);
  return element;
}
