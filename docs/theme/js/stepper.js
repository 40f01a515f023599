// Online softmax, step by step. Every value comes from examples/online_softmax.py: for the lesson's example the build ran it,
// for a reader's scores Python in the page runs it. Nothing is computed here but places on the screen.
import { Python } from "./python.js";
import { fetched, read, write } from "./run.js";

const PHASES = ["load", "scores", "max", "rescale", "weights", "l", "o"];
const BYTES = 2;   // of a number, as in fp16 and bf16
const PAUSE = 1400;
const show = (x, digits = 3) => (x === "-inf" ? "−∞" : Math.abs(x) >= 1e6 ? x.toExponential(2) : x.toFixed(digits)).replace("-", "−");
const list = (row, digits) => row.map((x) => show(x, digits)).join(", ");

let count = 0;

export default function widget(element, words) {
  const naiveAt = [words.reads_q_k, words.writes_s, words.reads_s, words.writes_p, words.reads_p_v, words.writes_o];
  const says = {   // what happens to a tile
    load: (t, n, all, names) => words.at_load({ n, all, names }),
    scores: (t) => words.at_scores({ s: list(t.s) }),
    max: (t) => (t.m === "-inf" ? words.at_max_hidden : t.m_old === "-inf" ? words.at_max_first({ m: show(t.m) })
      : (t.m > t.m_old ? words.at_max_grows : words.at_max_stays)({ tile: show(t.tile_max), old: show(t.m_old), m: show(t.m) })),
    rescale: (t) => (t.m_old === "-inf" ? words.at_rescale_first : t.rescale === 1 ? words.at_rescale_none
      : words.at_rescale({ old: show(t.m_old), m: show(t.m).replace(/^−(.*)/, "(−$1)"), alpha: show(t.rescale, 6) })),
    weights: (t) => words.at_weights({ p: list(t.p, 6) }),
    l: (t) => words.at_l({ alpha: show(t.rescale, 6), old: show(t.l_old, 6), tile: show(t.l_tile, 6), l: show(t.l, 6) }),
    o: (t) => words.at_o({ o: list(t.o) }),
  };
  const { file, root, bytes } = element.dataset;
  const sets = JSON.parse(element.querySelector("script").textContent);
  const rows = [...element.querySelectorAll(".steps > li")];
  const id = `stepper-${++count}`;
  let order = "reversed", walk = sets.reversed.walks[1], at = 0, timer = 0;

  // What is pressed.
  const orders = make("select", { id: `${id}-order` }), widths = make("select", { id: `${id}-width` });
  const button = (title, sign, className = "") => make("button", { type: "button", textContent: sign, title, ariaLabel: title, className });
  const buttons = {
    start: button(words.start, "|◀\uFE0E"), back: button(words.back, "◀\uFE0E"), play: button(words.play, words.play), forward: button(words.forward, "▶\uFE0E", "primary"), end: button(words.end, "▶\uFE0E|"),
  };
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
  const input = make("input", { id: `${id}-scores`, value: read("stepper:scores") ?? list(sets.reversed.scores).replaceAll("−", "-"), spellcheck: false, autocomplete: "off" });
  const go = make("button", { type: "button", textContent: words.go }), told = make("p", { className: "hint", textContent: words.fetch({ mb: (bytes / 1e6).toFixed(0) }) });
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
  input.addEventListener("input", () => write("stepper:scores", input.value));
  input.addEventListener("keydown", (event) => event.key === "Enter" && compute());
  choose("reversed");

  function last() { return walk.tiles.length * PHASES.length + 1; }

  function choose(name, width = 2) {
    order = name;
    const named = [["reversed", words.reversed], ["given", words.given], ["own", words.own]];
    orders.replaceChildren(...named.filter(([value]) => sets[value]).map(([value, textContent]) => make("option", { value, textContent, selected: value === name })));
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
    position.textContent = words.position({ i: at, n: last() });
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
    if (tile && reached("max") && !ended) table.tBodies[0].rows[0].cells[1].append(make("small", { textContent: ` ${words.tile_max} ${show(tile.tile_max)}` }));
    chip.append(table);
    if (ended) chip.append(lit(make("output", { className: "result", textContent: `o = [${walk.result.map((x) => x.toFixed(6)).join(", ")}]` }), true));

    const total = walk.naive.reduce((sum, [, numbers]) => sum + numbers, 0);
    const crossed = ended ? walk.crossed : tile ? tile.crossed : walk.query;
    const done = Math.floor((at / last()) * walk.naive.length);
    const sofar = walk.naive.slice(0, done).reduce((sum, [, numbers]) => sum + numbers, 0);
    flash.set(crossed, total, words.flash({ now: crossed * BYTES, all: walk.crossed * BYTES }));
    const doing = Math.max(done - 1, 0);
    naive.set(sofar, total, `${words.naive({ now: sofar * BYTES, all: total * BYTES })}${done ? ` · ${words.kernel({ k: Math.floor(doing / 2) + 1 })}${words.colon}${naiveAt[doing]}` : ""}`);
    const S = scores.length;
    grid.style.gridTemplateColumns = `repeat(${S}, 1fr)`;
    grid.replaceChildren(...Array.from({ length: S * S }, (_, i) => make("i", { className: i < S ? (done >= 4 ? "row p" : done >= 2 ? "row s" : "row") : "" })));
    aside.querySelector(".hint").textContent = `${words.grid({ S })} ${words.note}`;

    say.textContent = ended ? words.at_end({ flash: walk.crossed * BYTES, naive: total * BYTES }) : tile
      ? says[phase](tile, n + 1, walk.tiles.length, Array.from({ length: tile.stop - tile.start }, (_, i) => name(tile.start + i)).join(words.comma)) : words.at_init;
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
        files[name] = await fetched(address);
      }
      const version = await python.start(({ loaded, total }) => { told.textContent = `${words.loading} ${Math.floor((100 * loaded) / total)} %`; });
      let out = "", err = "";
      const end = await python.run(files, "online_trace.py", { argv: scores, onStdout: (text) => { out += text; }, onStderr: (text) => { err += text; } });
      if (!end.ok) throw new Error(err.trim().split("\n").at(-1) || end.error?.message);
      sets.own = JSON.parse(out);
      choose("own");
      told.textContent = words.ran({ version });
      stage.focus();
    } catch (error) {
      told.textContent = words.failed({ why: error.message });
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
  const fill = make("i"), text = make("span");
  const box = make("div", { className: `meter ${name}` }, text, make("div", { className: "track" }, fill));
  return { box, set(now, scale, said) { text.textContent = said; fill.style.width = `${(100 * now) / scale}%`; } };
}

function label(text, control) { return make("label", { textContent: `${text} ` }, control); }

function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) { element[key] = value; }
  element.append(...children);
  return element;
}
