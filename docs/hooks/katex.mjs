// Renders formulas for the build: a line in, {"formulas": [[tex, display], …]}; a line out, [{"html"} or {"error"}, …].
import { createInterface } from "node:readline";
import katex from "katex";

function render([tex, displayMode]) {
  try {
    const html = katex.renderToString(tex, { displayMode, strict: "error", output: "htmlAndMathml", trust: false });
    return { html: html.replace(/<annotation encoding="application\/x-tex">.*?<\/annotation>/s, "") };   // the source, which nobody sees
  } catch (error) {
    return { error: error.message };
  }
}

createInterface({ input: process.stdin }).on("line", (line) => {
  console.log(JSON.stringify(JSON.parse(line).formulas.map(render)));
});
