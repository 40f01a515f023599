// A quiz: the collapsibles that stand there without scripts become questions, one at a time. What is asked, which choice is right and
// every explanation are in the page (docs/quiz/*.yml); here are the numbers that a question draws and what follows from them.
import { attentionFlops, flashBytes, floorBytes, kvBytes, largestS, naiveBytes, quotient } from "./formulas.js";
import { button, make, read, write } from "./run.js";

const MIB = 2 ** 20, GIB = 2 ** 30, SMS = 132;   // multiprocessors of an H200
const SURE = 0.005;   // how near an answer must be to a slip's to be called that slip
const SIZES = { "": 1, b: 1, byte: 1, bytes: 1, 字节: 1, kib: 2 ** 10, mib: MIB, gib: GIB, tib: 2 ** 40, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12 };
const TIMES = { s: 1e6, ms: 1e3, µs: 1, us: 1, ns: 1e-3 };
const UNITS = { MiB: SIZES, µs: TIMES, "FLOP/B": { "flop/b": 1, "flop/byte": 1, "flops/byte": 1 }, "": { token: 1, tokens: 1 } };
const CARDS = { "RTX 4090": 1008, H200: 4800 };   // GB/s, of the data sheets

/**
 * The questions with drawn numbers. draw(pick) gives a shape; work(shape) what follows from it: the answer in the question's unit,
 * what each slip of the YAML file would give, and what its texts show.
 */
export const NUMBERS = {
  "naive-peak": {
    draw: (pick) => ({ B: pick(1, 2, 4), H: pick(16, 28, 32, 40), S: pick(1024, 2048, 4096, 8192), d: pick(64, 128) }),
    work({ B, H, S, d }) {
      const bytes = naiveBytes(B, H, H, S, d), rows = floorBytes(B, H, S, d), squares = bytes - rows;
      return {
        answer: mib(bytes), shown: { square: mib(squares), rows: mib(rows) },
        slips: { "one-square": mib(bytes - squares / 2n), elements: mib(bytes / 2n), megabytes: Number(bytes) / 1e6, "squares-only": mib(squares) },
      };
    },
  },
  "flash-peak": {
    draw: (pick) => ({ B: pick(1, 2, 4), H: pick(16, 28, 32), K: pick(2, 4), S: pick(2048, 4096, 8192, 16384), d: pick(64, 128) }),
    work({ B, H, K, S, d }) {
      const bytes = flashBytes(B, H, K, S, d, 2, SMS), kv = kvBytes(B, K, S, d), qo = floorBytes(B, H, S, d) / 2n;
      return {
        answer: mib(bytes), shown: { qo: mib(qo), kv: mib(kv), lse: mib(bytes - qo - kv - 24n) },
        slips: {
          "all-heads": mib(flashBytes(B, H, H, S, d, 2, SMS)), "with-squares": mib(naiveBytes(B, H, H, S, d) - floorBytes(B, H, S, d) + qo + kv),
          elements: mib(bytes / 2n), megabytes: Number(bytes) / 1e6,
        },
      };
    },
  },
  "largest-s": {
    draw: (pick) => ({ gib: pick(16, 24, 40, 80), H: pick(16, 28, 32, 40), d: pick(64, 128) }),
    work({ gib, H, d }) {
      const fits = (limit, e = 2) => Number(largestS(BigInt(limit), (S) => naiveBytes(1, H, H, S, d, e)));
      return {
        answer: fits(gib * GIB), shown: { root: Math.floor(Math.sqrt((gib * GIB) / (4 * H))) },
        slips: { "one-square": fits(gib * GIB, 1), "four-bytes": fits(gib * GIB, 4), gigabytes: fits(gib * 1e9) },
      };
    },
  },
  "floor-intensity": {
    draw: (pick) => ({ S: pick(1024, 2048, 4096, 8192, 16384, 32768), H: pick(16, 28, 32, 40), d: pick(64, 128) }),
    work({ S, H, d }) {
      const flops = attentionFlops(1, H, S, d, true), bytes = floorBytes(1, H, S, d), squares = naiveBytes(1, H, H, S, d) - bytes;
      const answer = quotient(flops, bytes);
      return {
        answer, shown: { flops: Number(flops) / 1e9, bytes: Number(bytes) / 1e6 },
        slips: { twice: 2 * answer, half: answer / 2, "with-squares": quotient(flops, bytes + 2n * squares) },
      };
    },
  },
  "decode-time": {
    draw: (pick) => { const card = pick(...Object.keys(CARDS)); return { card, rate: CARDS[card], B: pick(1, 4, 16), S: pick(8192, 32768, 131072), H: pick(28, 32), K: pick(4, 2) }; },
    work({ rate, B, S, H, K }) {
      const time = (bytes) => Number(bytes) / rate / 1e3, bytes = kvBytes(B, K, S, 128);
      return {
        answer: time(bytes), shown: { kv: Number(bytes) / 1e6 },
        slips: { "query-heads": time(kvBytes(B, H, S, 128)), "one-of-two": time(bytes) / 2, ...(B > 1 && { "one-sequence": time(bytes) / B }) },
      };
    },
  },
};

function mib(bytes) { return Number(bytes) / MIB; }

/** A number as the page shows it: whole ones in full, others to four figures. */
export function show(x) {
  if (typeof x === "string") return x;
  if (Number.isInteger(x) || x >= 1000) return Math.round(x).toString().replace(/\B(?=(\d{3})+$)/g, ",");
  return String(Number(x.toPrecision(4)));
}

/** What a reader typed, in `unit`; null where it is no number. Full-width digits, separators of thousands and other units are understood. */
export function parse(text, unit) {
  const plain = text.normalize("NFKC").replace(/μ/g, "µ").trim();
  const match = plain.match(/^([+-]?(?:\d[\d ,_'\u00a0\u202f]*)?(?:\.\d*)?(?:e[+-]?\d+)?)\s*([a-zµ/字节]*)\.?$/i);
  if (!match) return null;
  let [, digits, suffix] = match;
  digits = digits.replace(/[ _'\u00a0\u202f]/g, "");
  if (/^[+-]?\d+,\d+$/.test(digits) && (!/,\d{3}$/.test(digits) || /^[+-]?0,/.test(digits))) digits = digits.replace(",", ".");   // a decimal comma
  else if (digits.includes(",") && !/^[+-]?\d{1,3}(,\d{3})+(\.\d*)?$/.test(digits)) return null;
  const value = Number(digits.replaceAll(",", "") || NaN), known = UNITS[unit] ?? {};
  if (!Number.isFinite(value)) return null;
  if (!suffix) return value;
  const factor = (name) => (Object.hasOwn(known, name.toLowerCase()) ? known[name.toLowerCase()] : NaN);
  const own = unit ? factor(unit) : 1, scaled = (value * factor(suffix)) / own;
  return Number.isFinite(scaled) ? scaled : null;
}

/** {right, slip, ...work} of a typed answer, or null where it cannot be read. */
export function grade(id, shape, text, unit, within) {
  const value = parse(text, unit), work = NUMBERS[id].work(shape);
  if (value === null) return null;
  const off = (target) => Math.abs(value - target) / target;
  const right = off(work.answer) <= within / 100;
  const [slip] = Object.entries(work.slips).filter(([, wrong]) => off(wrong) <= SURE).sort((a, b) => off(a[1]) - off(b[1]))[0] ?? [];
  return { ...work, right, slip: right ? undefined : slip };
}

/** Numbers from 0 to 1, the same for the same seed. */
function random(seed) {
  let state = 2166136261;
  for (const letter of seed) state = Math.imul(state ^ letter.charCodeAt(0), 16777619);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** The visit's seed and draws: kept over a reload, new in a new tab. */
function visit(name) {
  const key = `quiz:${name}`;
  let kept = {};
  try { kept = JSON.parse(sessionStorage.getItem(key)) ?? {}; } catch { /* storage off, or not ours */ }
  const now = { seed: typeof kept.seed === "string" ? kept.seed : String(Math.random()), draws: Object(kept.draws), typed: Object(kept.typed) };
  const keep = () => { try { sessionStorage.setItem(key, JSON.stringify(now)); } catch { /* then it lasts as long as the page */ } };
  keep();
  return {
    random: (id) => random(`${now.seed}/${id}/${now.draws[id] ?? 0}`),
    typed: (id) => now.typed[id] ?? "",
    type(id, text) { now.typed[id] = text; keep(); },
    redraw(id) { now.draws[id] = (Number(now.draws[id]) || 0) + 1; delete now.typed[id]; keep(); },
    renew() { now.seed = String(Math.random()); now.draws = {}; now.typed = {}; keep(); },
  };
}

function answersOf(key) {
  try { return Object(JSON.parse(read(key)).answers); } catch { return {}; }
}

export default function widget(element, words, lang, shared) {
  const name = element.dataset.quiz, key = `quiz:${name}`, list = element.querySelector(".questions");
  const here = visit(name);
  let answers = answersOf(key), before = answersOf(`${key}:before`), at = 0;   // before: what starting again took away

  const status = make("span", { className: "status" }), say = make("p", { className: "say" }), state = make("p", { className: "state" });
  say.setAttribute("role", "status");
  const back = button(words.back), check = button(words.check, "primary"), next = button(words.next, "primary"), restart = button(words.restart);
  const questions = [...list.children].map((item, i) => question(item, i));
  const result = make("div", { className: "result", hidden: true, tabIndex: -1 });
  list.replaceWith(make("div", { className: "bar" }, status, restart), ...questions.map((q) => q.form), result, say, make("div", { className: "bar" }, back, check, next), state);

  check.addEventListener("click", () => questions[at].submit());
  back.addEventListener("click", () => go(at - 1));
  next.addEventListener("click", () => go(at + 1));
  restart.addEventListener("click", () => {
    const back = !some(answers);
    [answers, before] = back ? [before, {}] : [{}, answers];
    if (!back) here.renew();
    store(`${key}:before`, before);
    keep();
    questions.forEach((q) => q.lay());
    go(back ? open() : 0);
  });
  addEventListener("storage", (event) => {   // answered in another tab: both count
    if (event.key !== key) return;
    const theirs = answersOf(key);
    questions.filter((q) => !q.done() && Object.hasOwn(theirs, q.form.dataset.id)).forEach((q) => { answers[q.form.dataset.id] = theirs[q.form.dataset.id]; q.lay(); });
    draw();
  });
  questions.forEach((q) => q.lay());
  at = open();
  draw();

  function open() { return (questions.findIndex((q) => !q.done()) + questions.length + 1) % (questions.length + 1); }   // the first without an answer, else the result

  function some(of) { return Object.keys(of).length > 0; }

  function store(key, answers) { return write(key, some(answers) ? JSON.stringify({ answers }) : null); }

  function keep() {
    const kept = store(key, answers);
    state.textContent = some(answers) ? (kept ? words.kept : words.unkept) : "";
  }

  function go(to) {
    at = Math.max(0, Math.min(questions.length, to));
    draw();
    (at < questions.length ? questions[at].fieldset : result).focus();
  }

  function draw() {
    const done = questions.filter((q) => q.done()), right = questions.filter((q) => q.right());
    questions.forEach((q, i) => { q.form.hidden = i !== at; });
    result.hidden = at < questions.length;
    say.textContent = "";
    status.textContent = `${at < questions.length ? words.at({ n: at + 1, all: questions.length }) : words.result}${done.length ? ` · ${words.score({ right: right.length, done: done.length })}` : ""}`;
    restart.textContent = done.length || !some(before) ? words.restart : shared.undo;
    restart.disabled = !done.length && !some(before);
    back.disabled = at === 0;
    next.hidden = at === questions.length;
    next.textContent = at === questions.length - 1 ? words.end : words.next;
    settle();
    if (at === questions.length) sum(right.length, questions.length - done.length);
  }

  function settle() {   // what can be pressed for the question on the screen
    const open = at < questions.length && !questions[at].done();
    check.hidden = !open;
    next.classList.toggle("primary", !open);
  }

  function sum(right, open) {
    const wrong = questions.filter((q) => q.done() && !q.right());
    result.replaceChildren(make("p", { className: "total" }, words.total({ right, all: questions.length }), open ? words.space + words.open({ n: open }) : ""));
    if (!wrong.length) return;
    const again = button(words.wrongs);
    again.addEventListener("click", () => { wrong.forEach((q) => q.clear()); keep(); go(questions.indexOf(wrong[0])); });
    result.append(make("p", {}, words.again), make("ul", {}, ...wrong.map((q) => make("li", {}, `${questions.indexOf(q) + 1}${words.colon}`, q.see.querySelector("a").cloneNode(true)))), make("div", { className: "bar" }, again));
  }

  /** One question: its form, and what is done with it. */
  function question(item, index) {
    const id = item.dataset.id, legend = make("legend", {}, make("span", { className: "number", textContent: `${index + 1}. ` }), ...item.querySelector("summary").childNodes);
    const fieldset = make("fieldset", { tabIndex: -1 }, legend), see = item.querySelector(".see");
    const form = make("form", { className: "question", noValidate: true, hidden: true }, fieldset);
    const part = (NUMBERS[id] ? number : choices)(item, id, fieldset, form);
    form.append(see);
    form.dataset.id = id;
    form.addEventListener("submit", (event) => { event.preventDefault(); submit(); });
    form.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target.type === "radio") { event.preventDefault(); submit(); } });

    function submit() {
      if (self.done()) return;
      const said = part.take(), held = form.contains(document.activeElement) || document.activeElement === check;
      if (said) { say.textContent = ""; say.textContent = said; if (!form.contains(document.activeElement)) fieldset.querySelector("input").focus(); return; }
      keep();
      lay();
      draw();
      if (held) next.focus({ preventScroll: true });
      say.textContent = part.verdict();
    }
    function lay() {
      part.lay();
      see.hidden = !self.done();
      form.classList.toggle("done", self.done());
    }
    const self = { form, fieldset, see, submit, lay, done: () => part.state() !== null, right: () => part.state() === true, clear() { delete answers[id]; here.redraw(id); lay(); } };
    return self;
  }

  /** Radio buttons. An answer is kept as the choice's id. */
  function choices(item, id, fieldset) {
    const made = [...item.querySelectorAll(":scope > details > ul > li")].map((li) => {
      const input = make("input", { type: "radio", name: `quiz-${name}-${id}`, value: li.dataset.id });
      const why = li.querySelector(".why"), text = li.querySelector("span");
      return { input, why, text, right: "right" in li.dataset, box: make("div", { className: "choice" }, make("label", {}, input, " ", text), why) };
    });
    const taken = () => made.find((choice) => choice.input.value === answers[id]);
    fieldset.append(...made.map((choice) => choice.box));
    return {
      state: () => taken()?.right ?? null,
      take() {
        const chosen = made.find((choice) => choice.input.checked);
        if (!chosen) return words.choose;
        answers[id] = chosen.input.value;
      },
      lay() {
        const order = [...made], next = here.random(id), chosen = taken();
        for (let i = order.length - 1; i > 0; i--) { const j = Math.floor(next() * (i + 1)); [order[i], order[j]] = [order[j], order[i]]; }
        fieldset.append(...order.map((choice) => choice.box));
        for (const choice of made) {
          choice.input.checked = choice === chosen;
          choice.input.disabled = Boolean(chosen);
          choice.why.hidden = !chosen;
          choice.box.className = `choice${chosen && choice.right ? " right" : ""}${choice === chosen ? " chosen" : ""}`;
        }
      },
      verdict() {
        const chosen = taken(), right = made.find((choice) => choice.right);
        return chosen.right ? right.why.textContent : [chosen.why.textContent, words.right_is({ text: right.text.textContent })].join(words.space);
      },
    };
  }

  /** A typed number. An answer is kept as {shape, text}, and graded again when it is read back. */
  function number(item, id, fieldset, form) {
    const { unit, within } = item.dataset, field = `quiz-${name}-${id}`;
    const input = make("input", { type: "text", inputMode: "decimal", autocomplete: "off", id: field }), other = button(words.other);
    const hint = make("p", { className: "hint", id: `${field}-hint`, textContent: [words.within({ pct: within }), UNITS[unit] === SIZES ? words.sizes : UNITS[unit] === TIMES ? words.times : ""].filter(Boolean).join(words.space) });
    input.setAttribute("aria-describedby", hint.id);
    const why = item.querySelector(".why"), slips = [...item.querySelectorAll(":scope > details > ul > li")].map((li) => ({ id: li.dataset.id, text: make("p", { className: "slip" }, ...li.childNodes) }));
    const yours = make("p", { className: "yours" });
    const slots = [...form.querySelectorAll("[data-slot]"), ...why.querySelectorAll("[data-slot]"), ...slips.flatMap((slip) => [...slip.text.querySelectorAll("[data-slot]")])];
    fieldset.append(make("div", { className: "ask" }, make("label", { htmlFor: field, textContent: unit ? words.number_in({ unit }) : words.number }), input, other), hint, yours, ...slips.map((slip) => slip.text), why);
    input.addEventListener("input", () => here.type(id, input.value));
    let shape, found;
    other.addEventListener("click", () => { delete answers[id]; here.redraw(id); keep(); self.lay(); draw(); input.focus(); });

    function drawn() {
      const next = here.random(id);
      return NUMBERS[id].draw((...from) => from[Math.floor(next() * from.length)]);
    }
    const self = {
      state: () => found?.right ?? null,
      take() {
        const text = input.value.trim();
        if (!text || !grade(id, shape, text, unit, within)) return (unit ? words.unread_unit : words.unread)({ text, unit });
        answers[id] = { shape, text };
      },
      lay() {
        found = null;
        const kept = answers[id];
        try { if (kept) found = grade(id, (shape = kept.shape), kept.text, unit, within); } catch { /* not an answer to this question */ }
        if (!found) { delete answers[id]; shape = drawn(); }
        const { answer, shown } = found ?? NUMBERS[id].work(shape);
        for (const slot of slots) slot.textContent = String(show({ ...shown, answer }[slot.dataset.slot] ?? String(shape[slot.dataset.slot])));
        input.value = found ? kept.text : here.typed(id);
        input.disabled = Boolean(found);
        why.hidden = !found;
        yours.hidden = !found;
        if (found) yours.replaceChildren(make("b", { textContent: found.right ? words.right : words.wrong }), words.space + words.yours({ text: kept.text }));
        yours.className = `yours ${found?.right ? "right" : ""}`;
        for (const slip of slips) slip.text.hidden = slip.id !== found?.slip;
      },
      verdict() { return [yours, ...slips.map((slip) => slip.text).filter((text) => !text.hidden), why].map((part) => part.textContent).join(words.space); },
    };
    return self;
  }
}
