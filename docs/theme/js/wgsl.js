// The flash kernel in an editor: edited by the reader, run and graded on the reader's GPU.
import { button, draft, editor, fetched, make } from "./run.js";

let count = 0;

/** Fetch the styles of these widgets, once. */
export function dress() {
  const href = new URL("../css/gpu.css", import.meta.url).href;
  if (![...document.styleSheets].some((sheet) => sheet.href === href) && !document.querySelector(`link[href="${href}"]`)) document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href }));
}

export default function widget(element, words, lang, shared) {
  const { file, root } = element.dataset;
  const area = element.querySelector("textarea");
  const check = button(words.check, "primary"), reset = button(words.reset), status = make("span", { className: "status", textContent: words.promise });
  status.setAttribute("role", "status");
  const hint = make("p", { className: "hint", id: `wgsl-keys-${++count}`, textContent: words.keys }), results = make("div", { className: "results" });
  element.prepend(make("div", { className: "bar" }, check, reset, status));
  element.append(hint, results);
  const mark = editor(area, hint.id, start);
  draft(area, `file:webgpu/${file}`, reset, shared, () => {
    mark.count();
    mark.line(null);
  });
  check.addEventListener("click", start);
  reset.addEventListener("click", () => results.replaceChildren());

  async function start() {
    if (check.disabled) return;
    check.disabled = true;
    dress();
    results.replaceChildren();
    mark.line(null);
    status.textContent = words.checking;
    try {
      const { grade, race } = await import("./gpu-grade.js");
      const kernels = { flash: await fetched(`${root}examples/webgpu/flash.wgsl`) };
      const { found, all } = await grade(area.value, kernels);
      show(found, all);
      if (found.every(({ passed }) => passed)) {
        status.textContent = words.timing;
        const { heads, length } = element.dataset;
        const [mine, theirs] = await race([area.value, kernels.flash], { H: Number(heads), S: Number(length) });
        status.textContent = `${words.solved} ${words.raced({ S: length, yours: mine.ms.toPrecision(3), page: theirs.ms.toPrecision(3) })}`;
      }
    } catch (error) {
      const said = { none: words.none, adapter: words.noadapter, hidden: words.why.hidden, lost: words.why.lost, stopped: words.why.stopped, slow: words.why.endless }[error.status] ?? words.unavailable;
      status.textContent = typeof said === "function" ? said({ said: error.message }) : said;
    }
    check.disabled = false;
  }

  function show(found, all) {
    const failed = found.find(({ passed }) => !passed);
    status.textContent = failed ? words.count({ passed: found.filter(({ passed }) => passed).length, all: all.length, first: words.properties[failed.name] }) : words.solved;
    if (failed?.line) mark.line(failed.line);
    const list = make("ul", { ariaLabel: words.results });
    for (const { name, passed, why, values } of found) {
      const line = make("li", { className: passed ? "ok" : "no" }, make("span", { className: "mark", textContent: passed ? words.ok : words.no }), ` ${words.properties[name]}`);
      if (!passed) {
        const reason = words.why[why];
        line.append(make("p", { className: "why", textContent: typeof reason === "function" ? reason(values) : reason }));
        if (values?.expected) line.append(make("p", { className: "where", textContent: ("threads" in values ? words.where : words.whereLse)(values) }));
      }
      list.append(line);
    }
    results.append(list);
  }
}
