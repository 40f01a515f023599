// Renders formulas for the build: a line in, {"formulas": [[tex, display], …]}; a line out, [{"html"} or {"error"}, …].
import { createInterface } from "node:readline";
import katex from "katex";

function render([tex, displayMode]) {
  try {
    return { html: katex.renderToString(tex, { displayMode, strict: "error", output: "htmlAndMathml", trust: false }) };
  } catch (error) {
    return { error: error.message };
  }
}

createInterface({ input: process.stdin }).on("line", (line) => {
  console.log(JSON.stringify(JSON.parse(line).formulas.map(render)));
});
