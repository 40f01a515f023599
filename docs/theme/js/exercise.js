// An exercise: the reader's function, and the grader of the command line run on it in the page.
import { Python } from "./python.js";
import { button, editor, make, read, write } from "./run.js";

const SECONDS = 20;
const WORDS = {
  en: {
    check: "Check", stop: "Stop", reset: "Start again", loading: "Loading Python", starting: "Starting Python", checking: (version) => `Checking with Python ${version}`,
    first: (mb) => `Python comes with the first check: ${mb} MB, from this site, then kept by the browser.`,
    count: (passed, all, first) => `${passed} of ${all} properties hold. The first that fails: ${first}.`, solved: "Solved: every property holds.", before: (date) => `You solved this on ${date}.`,
    stopped: "Stopped.", late: `Stopped: no end after ${SECONDS} seconds. Is there a loop that never ends?`,
    broken: "Python gave up (out of memory, or too deep a recursion). The next check starts a fresh one.",
    unavailable: (why) => `Python or the grader could not be loaded (${why}). Check tries again.`,
    kept: "Your text is kept in this browser.", unkept: "This browser does not keep your text.",
    ok: "holds", no: "fails", input: "input", expected: "expected", got: "got", hint: "hint",
    printed: (fails) => `Printed by your program, for ${fails ? "the first input that fails" : "one input"}`, results: "Properties", colon: ": ",
    keys: "Tab indents. Escape, then Tab, leaves the editor. Ctrl+Enter checks.",
  },
  zh: {
    check: "检查", stop: "停止", reset: "重新开始", loading: "正在加载 Python", starting: "正在启动 Python", checking: (version) => `正在用 Python ${version} 检查`,
    first: (mb) => `首次检查时才加载 Python：${mb} MB，来自本站，之后由浏览器缓存。`,
    count: (passed, all, first) => `${all} 条性质中有 ${passed} 条成立。第一条不成立的：${first}。`, solved: "已解出：所有性质都成立。", before: (date) => `你在 ${date} 解出了这一题。`,
    stopped: "已停止。", late: `已停止：${SECONDS} 秒后仍未结束。是不是有一个永不结束的循环？`,
    broken: "Python 崩溃了（内存耗尽，或递归过深）。下次检查会重新启动。",
    unavailable: (why) => `Python 或评分程序加载失败（${why}）。再点「检查」重试。`,
    kept: "你写的内容保存在本浏览器里。", unkept: "本浏览器不保存你写的内容。",
    ok: "成立", no: "不成立", input: "输入", expected: "应得", got: "实得", hint: "提示",
    printed: (fails) => `你的程序打印的内容（${fails ? "第一个不成立的输入" : "其中一个输入"}）`, results: "各条性质", colon: "：",
    keys: "Tab 缩进；先按 Escape 再按 Tab 离开编辑框；Ctrl+Enter 检查。",
  },
};
const pythons = [];   // one for all exercises of a page, more only while several check at once
let count = 0;

export default function widget(element) {
  const lang = document.documentElement.lang.startsWith("zh") ? "zh" : "en";
  const words = WORDS[lang];
  const { exercise: name, root, bytes } = element.dataset;
  const area = element.querySelector("textarea");
  const skeleton = area.defaultValue;
  const key = `exercise:${name}`;
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

  area.readOnly = false;
  area.value = read(key) ?? skeleton;
  const solved = read(`solved:${name}`);
  status.textContent = solved ? words.before(day(solved)) : words.first((bytes / 1e6).toFixed(0));
  reset.disabled = area.value === skeleton;
  mark.count();
  area.addEventListener("input", changed);
  check.addEventListener("click", start);
  stop.addEventListener("click", () => python?.stop());
  reset.addEventListener("click", () => { area.value = skeleton; changed(); results.replaceChildren(); area.scrollTop = 0; area.focus(); });
  rest();

  function changed() {
    const edited = area.value !== skeleton;
    const kept = write(key, edited ? area.value : null);
    state.textContent = edited ? (kept ? words.kept : words.unkept) : "";
    reset.disabled = !edited;
    mark.count();
    mark.line(null);
  }

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
      status.textContent = words.checking(python.version);
      clock = setTimeout(() => { late = true; python.stop(); }, SECONDS * 1000);
      const files = { [`${name}.py`]: area.value, [`grade_${name}.py`]: grader };
      const end = await python.run(files, `grade_${name}.py`, { argv: [`${name}.py`, "--json", "--lang", lang], onStdout: (more) => { text += more; } });
      if (end.stopped) status.textContent = late ? words.late : words.stopped;
      else if (end.error?.type === "fatal" || !text) status.textContent = words.broken;
      else show(JSON.parse(text));
    } catch (error) {
      status.textContent = error.stopped ? words.stopped : words.unavailable(error.message);
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
    status.textContent = problem || (all ? words.solved : words.count(passed, found.length, failing.title));
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
      const pre = make("pre", { textContent: printed, tabIndex: 0, ariaLabel: words.printed(failing) });
      pre.setAttribute("role", "group");
      results.append(make("p", { className: "state", textContent: words.printed(failing) + words.colon }), pre);
    }
  }

  function head({ passed, title }) {
    return make("span", {}, make("span", { className: "mark", textContent: passed ? words.ok : words.no }), ` ${title}`);
  }

  function told(result, open) {
    const list = make("dl", {});
    for (const part of ["input", "expected", "got", "hint"]) {
      list.append(make("dt", { textContent: words[part] }), make("dd", {}, part === "hint" ? result[part] : make("code", { textContent: result[part] })));
    }
    return make("details", { open }, make("summary", {}, head(result)), list);
  }
}

async function fetched(address) {
  const response = await fetch(new URL(address, location.href));
  if (!response.ok) throw new Error(`${response.status}`);
  return response.text();
}
