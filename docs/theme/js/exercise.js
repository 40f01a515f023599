// An exercise: the reader's function, and the grader of the command line run on it in the page.
import { Python } from "./python.js";
import { button, draft, editor, fetched, make, read, write } from "./run.js";

const SECONDS = 20;
const pythons = [];   // one for all exercises of a page, more only while several check at once
let count = 0;

export default function widget(element, words, lang, shared) {
  const { exercise: name, root, bytes } = element.dataset;
  const area = element.querySelector("textarea");
  let python = null, grader = null;

  const check = button(words.check, "primary"), stop = button(words.stop), reset = button(words.reset);
  const progress = make("progress", { max: 1, hidden: true, ariaLabel: words.loading });
  const status = make("span", { className: "status", role: "status" });
  const state = make("p", { className: "state" });
  const results = make("div", { className: "results" });
  const hint = make("p", { className: "hint", id: `exercise-keys-${++count}`, textContent: words.keys });
  element.prepend(make("div", { className: "bar" }, check, stop, reset, progress, status));
  element.querySelector(".editor").after(hint, state, results);
  const mark = editor(area, hint.id, start);

  draft(area, `exercise:${name}`, reset, shared, (edited, kept) => {
    state.textContent = edited ? (kept ? words.kept : words.unkept) : "";
    mark.count();
    mark.line(null);
  });
  const solved = read(`solved:${name}`);
  status.textContent = solved ? words.before({ date: day(solved) }) : words.first({ mb: (bytes / 1e6).toFixed(0) });
  check.addEventListener("click", start);
  stop.addEventListener("click", () => python?.stop());
  reset.addEventListener("click", () => results.replaceChildren());
  rest();

  function rest() { check.disabled = false; stop.disabled = true; progress.hidden = true; }

  function day(date) { return new Date(date).toLocaleDateString(document.documentElement.lang, { dateStyle: "long" }); }

  async function start() {
    if (check.disabled) return;
    const held = document.activeElement === check;
    check.disabled = true;
    stop.disabled = false;
    if (held) stop.focus();
    results.replaceChildren();
    mark.line(null);
    python = pythons.find((other) => !other.taken);
    if (!python) pythons.push(python = new Python({ bytes: Number(bytes) }));
    python.taken = true;
    let clock = 0, late = false, text = "";
    try {
      if (!python.version) status.textContent = words.loading;
      grader ??= await fetched(`${root}examples/exercises/grade_${name}.py`);
      await python.start(({ loaded, total }) => {
        progress.hidden = false;
        progress.value = loaded / total;
        if (loaded === total) status.textContent = words.starting;
      });
      progress.hidden = true;
      status.textContent = words.checking({ version: python.version });
      clock = setTimeout(() => { late = true; python.stop(); }, SECONDS * 1000);
      const files = { [`${name}.py`]: area.value, [`grade_${name}.py`]: grader };
      const end = await python.run(files, `grade_${name}.py`, { argv: [`${name}.py`, "--json", "--lang", lang], onStdout: (more) => { text += more; } });
      if (end.stopped) status.textContent = late ? words.late({ seconds: SECONDS }) : words.stopped;
      else if (end.error?.type === "fatal" || !text) status.textContent = words.broken;
      else show(JSON.parse(text));
    } catch (error) {
      status.textContent = error.stopped ? words.stopped : words.unavailable({ why: error.message });
    }
    clearTimeout(clock);
    python.taken = false;
    const back = document.activeElement === stop;
    rest();
    if (back) check.focus();
  }

  function show({ problem, line, results: found, printed }) {
    const passed = found.filter((result) => result.passed).length;
    const all = found.length > 0 && passed === found.length, failing = found.find((result) => !result.passed);
    status.textContent = problem || (all ? words.solved : words.count({ passed, all: found.length, first: failing.title }));
    mark.line(line ?? failing?.line ?? null);
    element.classList.toggle("solved", all);
    if (all) {
      if (!read(`solved:${name}`)) write(`solved:${name}`, new Date().toISOString());
      document.dispatchEvent(new CustomEvent("solved"));
    }
    if (!problem) {
      const list = make("ul", { ariaLabel: words.results });
      list.append(...found.map((result) => make("li", { className: result.passed ? "ok" : "no" }, result.passed ? head(result) : told(result, result === failing))));
      results.append(list);
    }
    if (printed) {
      const title = failing ? words.printed_failing : words.printed_one;
      const pre = make("pre", { textContent: printed, tabIndex: 0, ariaLabel: title });
      pre.setAttribute("role", "group");
      results.append(make("p", { className: "state", textContent: title + words.colon }), pre);
    }
  }

  function head({ passed, title }) {
    return make("span", {}, make("span", { className: "mark", textContent: passed ? words.ok : words.no }), ` ${title}`);
  }

  function told(result, open) {
    const list = make("dl", {});
    for (const [part, name] of [["input", words.input], ["expected", words.expected], ["got", words.got], ["hint", words.hint]]) {
      list.append(make("dt", { textContent: name }), make("dd", {}, part === "hint" ? result[part] : make("code", { textContent: result[part] })));
    }
    return make("details", { open }, make("summary", {}, head(result)), list);
  }
}
