// Which exercises the reader has solved in this browser, and a file of it to keep.
import { button, make, read } from "./run.js";

export default function widget(element, words) {
  const names = element.dataset.names.split(" ");
  const status = make("span", { className: "status", role: "status" });
  const save = button(words.save);
  element.querySelector("p").replaceWith(make("div", { className: "bar" }, status, save));
  save.addEventListener("click", () => {
    const kept = Object.fromEntries(names.map((name) => [name, { solved: read(`solved:${name}`), code: read(`exercise:${name}`) }]));
    const link = make("a", { download: "exercises.json", href: URL.createObjectURL(new Blob([JSON.stringify({ exercises: kept }, null, 2)], { type: "application/json" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  const tell = () => { status.textContent = words.solved({ n: names.filter((name) => read(`solved:${name}`)).length, all: names.length }); };
  document.addEventListener("solved", tell);
  tell();
}
