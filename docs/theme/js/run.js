// An example in an editor, run by Python in the page.
import { Python } from "./python.js";

const GPU_FILE = "flash_vs_naive_memory.py";
const GPU_MODULES = ["torch", "triton", "vllm", "flash_attn"];
let count = 0;

export default function widget(element, words, lang, shared) {
  const { file, root, bytes } = element.dataset;
  const python = new Python({ bytes: Number(bytes) });
  const area = element.querySelector("textarea");

  const run = button(words.run, "primary"), stop = button(words.stop), reset = button(words.reset);
  const bar = make("div", { className: "bar" }, run, stop, reset);
  const progress = make("progress", { max: 1, hidden: true, ariaLabel: words.loading });
  const status = make("span", { className: "status", role: "status" });
  const state = make("p", { className: "state" });
  const note = make("p", { className: "note", hidden: true });
  note.setAttribute("role", "alert");
  const output = make("pre", { hidden: true, tabIndex: 0, ariaLabel: words.output + words.colon + file });
  output.setAttribute("role", "group");
  const hint = make("p", { className: "hint", id: `editor-keys-${++count}`, textContent: words.keys });
  bar.append(progress, status);
  element.prepend(bar);
  element.append(hint, state, note, output);
  const mark = editor(area, hint.id, start);

  status.textContent = words.first({ mb: (bytes / 1e6).toFixed(0) });
  draft(area, `file:${file}`, reset, shared, (edited, kept) => {
    state.textContent = !edited ? words.tested : kept ? words.edited : words.unsaved;
    mark.count();
    mark.line(null);
  });
  run.addEventListener("click", start);
  stop.addEventListener("click", () => python.stop());
  rest();

  function rest() { run.disabled = false; stop.disabled = true; progress.hidden = true; }

  async function start() {
    if (run.disabled) return;
    const held = document.activeElement === run;
    run.disabled = true;
    stop.disabled = false;
    if (held) stop.focus();
    mark.line(null);
    note.hidden = true;
    output.replaceChildren();
    output.hidden = false;
    try {
      if (!python.version) status.textContent = words.loading;
      await python.start(({ loaded, total }) => {
        progress.hidden = false;
        progress.value = loaded / total;
        if (loaded === total) status.textContent = words.starting;
      });
      progress.hidden = true;
      status.textContent = words.running({ version: python.version });
      const begun = performance.now();
      const screen = printer(output, words.cut);
      const end = await python.run({ [file]: area.value }, file, screen);
      const seconds = (performance.now() - begun) / 1000;
      screen.flush();
      if (end.stopped) status.textContent = words.stopped;
      else if (end.ok) status.textContent = words.done({ version: python.version, time: `${seconds.toFixed(seconds < 10 ? 2 : 0)} s` });
      else explain(end.error);
    } catch (error) {
      status.textContent = error.stopped ? words.stopped : words.unavailable({ why: error.message });
    }
    const back = document.activeElement === stop;
    rest();
    if (back) run.focus();
  }

  function explain({ type, line, module }) {
    status.textContent = type === "fatal" ? words.broken : (line ? words.failed_at : words.failed)({ version: python.version, line });
    mark.line(line);
    if (type !== "ModuleNotFoundError" || !module) return;
    const name = module.split(".")[0];
    const link = make("a", { href: `${root}examples/${GPU_FILE}`, download: "", textContent: GPU_FILE });
    const [before, after] = words.torch({ name, link: "\n" }).split("\n");   // the link stands between
    note.replaceChildren(...(GPU_MODULES.includes(name) ? [before, link, after] : [words.missing({ name })]));
    note.hidden = false;
  }
}

/** Text that arrives faster than the screen is drawn goes to the page once a frame. */
function printer(output, cut) {
  let waiting = [], frame = 0;
  const flush = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    const bottom = output.scrollTop + output.clientHeight >= output.scrollHeight - 4;
    output.append(...waiting);
    waiting = [];
    if (bottom) output.scrollTop = output.scrollHeight;
  };
  const add = (kind, text) => {
    const last = waiting.at(-1);
    if (last?.className === kind) last.textContent += text;
    else waiting.push(make("span", { className: kind, textContent: text }));
    frame ||= requestAnimationFrame(flush);
  };
  return { flush, onStdout: (text) => add("out", text), onStderr: (text) => add("err", text), onCut: () => add("cut", `\n${cut}\n`) };
}

/**
 * What the reader writes in `area`, kept under `key`. The button `reset` puts the first text back, and then brings the reader's again, after a reload too;
 * a text that another tab has kept since is offered, and taking it can be undone as well. tell(edited, kept) after every change.
 */
export function draft(area, key, reset, says, tell) {
  const first = area.defaultValue, name = reset.textContent, take = button(says.take), notice = make("p", { className: "note", hidden: true }, says.newer, " ", take);
  notice.setAttribute("role", "status");
  area.parentElement.after(notice);
  let replaced = read(`${key}:before`), theirs = null, kept = true;
  area.readOnly = false;
  area.value = read(key) ?? first;
  let back = replaced !== null && area.value === first;   // the button brings back

  function show() {
    const edited = area.value !== first;
    reset.textContent = back ? says.undo : name;
    reset.disabled = !edited && !back;
    tell(edited, kept);
  }
  function changed() {
    kept = write(key, area.value === first ? null : area.value);
    show();
  }
  function put(text) {
    replaced = back ? null : area.value;
    back = !back;
    write(`${key}:before`, replaced);
    area.value = text;
    area.scrollTop = 0;
    changed();
  }
  function compare() {
    theirs = read(key) ?? first;
    notice.hidden = !kept || theirs === area.value;
  }
  area.addEventListener("input", () => { back = false; changed(); });
  reset.addEventListener("click", () => put(back ? replaced : first));
  take.addEventListener("click", () => { notice.hidden = true; back = false; put(theirs); reset.focus(); });
  addEventListener("storage", (event) => event.key === key && compare());
  addEventListener("pageshow", ({ persisted }) => persisted && compare());
  show();
}

/** Line numbers, indentation by Tab, Ctrl+Enter; on paper the whole text. */
export function editor(area, hint, submit) {
  const gutter = make("div", { className: "gutter" });
  gutter.setAttribute("aria-hidden", "true");
  const paper = make("div", { className: "paper" });
  area.before(gutter);
  area.parentElement.after(paper);
  area.setAttribute("aria-describedby", hint);
  let leave = false, lines = 0, marked = null;
  area.addEventListener("scroll", () => { gutter.scrollTop = area.scrollTop; });
  area.addEventListener("focus", () => { leave = false; });
  area.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Escape") { leave = true; return; }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); submit(); return; }
    if (event.key === "Tab" && !leave && !event.ctrlKey && !event.altKey && !event.metaKey) { event.preventDefault(); indent(event.shiftKey); }
    else if (event.key === "Enter") {
      event.preventDefault();
      const before = area.value.slice(area.value.lastIndexOf("\n", area.selectionStart - 1) + 1, area.selectionStart);
      type("\n" + before.match(/^ */)[0] + (before.trimEnd().endsWith(":") ? "    " : ""));
    }
    if (event.key !== "Shift") leave = false;
  });

  function type(text) {   // execCommand keeps the browser's undo
    if (!document.execCommand("insertText", false, text)) { area.setRangeText(text, area.selectionStart, area.selectionEnd, "end"); area.dispatchEvent(new Event("input")); }
  }
  function indent(back) {
    const { selectionStart: from, selectionEnd: to, value } = area;
    if (!back && from === to) { type(" ".repeat(4 - ((from - value.lastIndexOf("\n", from - 1) - 1) % 4))); return; }
    const first = value.lastIndexOf("\n", from - 1) + 1;
    const end = value.indexOf("\n", to > from ? to - 1 : to);
    const last = end < 0 ? value.length : end;
    const text = value.slice(first, last).replace(back ? /^ {1,4}/gm : /^(?=.)/gm, back ? "" : "    ");
    if (text === value.slice(first, last)) return;
    area.setSelectionRange(first, last);
    if (text) type(text); else document.execCommand("delete");
    if (from === to) { const caret = Math.max(first, from + text.length - (last - first)); area.setSelectionRange(caret, caret); } else area.setSelectionRange(first, first + text.length);
  }
  return {
    count() {
      paper.textContent = area.value;
      const now = area.value.split("\n").length;
      if (now === lines) return;
      lines = now;
      gutter.replaceChildren(...Array.from({ length: now }, (_, i) => make("span", { textContent: i + 1 })));
    },
    line(number) {
      gutter.children[marked - 1]?.classList.remove("wrong");
      marked = number;
      const row = gutter.children[number - 1];
      if (!row) return;
      row.classList.add("wrong");
      area.scrollTop = gutter.scrollTop = row.offsetTop - area.clientHeight / 2;
    },
  };
}

export function make(name, properties, ...children) {
  const element = Object.assign(document.createElement(name), /^(pre|code)$/.test(name) ? { translate: false } : {}, properties);
  element.append(...children);
  return element;
}

export function button(text, kind = "") { return make("button", { type: "button", textContent: text, className: kind }); }

export function read(key) { try { return localStorage.getItem(key); } catch { return null; } }

/** Keep the text, or forget it where it is null; false where the browser does not keep anything. */
export function write(key, text) {
  try {
    if (text === null) localStorage.removeItem(key); else localStorage.setItem(key, text);
    return true;
  } catch { return text === null; }
}

const WAIT = 30_000;

/** The text of a file of this site. What does not come, comes late or is another page in its place is an error that names it. */
export async function fetched(address) {
  const end = new AbortController(), clock = setTimeout(() => end.abort(), WAIT);
  try {
    const response = await fetch(new URL(address, location.href), { signal: end.signal });
    if (!response.ok) throw new Error(response.status);
    const text = await response.text();
    if (/^\s*<!doctype/i.test(text)) throw new Error("HTML");
    return text;
  } catch (error) {
    throw new Error(`${address.split("/").at(-1)}: ${end.signal.aborted ? "timeout" : error.message}`);
  } finally { clearTimeout(clock); }
}
