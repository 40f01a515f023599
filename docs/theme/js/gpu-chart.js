// A chart with two logarithmic axes: series of points, some with lines, as SVG; what it shows stands in the table beside it.
const W = 360, H = 250, LEFT = 52, RIGHT = 14, TOP = 12, BOTTOM = 36;

/** series: [{name, kind ("naive" | "flash" | "roof"), points: [[x, y], …], line, dot ("full" | "hollow" | "")}], kinds as in css/widgets.css. */
export function chart({ title, x, y, series }) {
  const drawn = series.map((one) => ({ ...one, points: one.points.filter(([a, b]) => a > 0 && b > 0) })).filter(({ points }) => points.length);
  const ends = (n) => {
    const all = drawn.flatMap(({ points }) => points.map((point) => Math.log2(point[n])));
    return [Math.floor(Math.min(...all) - 0.2), Math.ceil(Math.max(...all) + 0.2)];
  };
  const [x0, x1] = ends(0), [y0, y1] = ends(1);
  const across = (value) => LEFT + ((Math.log2(value) - x0) / (x1 - x0)) * (W - LEFT - RIGHT);
  const up = (value) => H - BOTTOM - ((Math.log2(value) - y0) / (y1 - y0)) * (H - TOP - BOTTOM);
  const parts = [];
  const step = (from, to, most) => Math.max(1, Math.ceil((to - from) / most));
  for (let k = x0; k <= x1; k += step(x0, x1, 6)) parts.push(svg("line", { x1: across(2 ** k), x2: across(2 ** k), y1: TOP, y2: H - BOTTOM, class: "rule" }), svg("text", { x: across(2 ** k), y: H - BOTTOM + 14, "text-anchor": "middle" }, plain(2 ** k)));
  const decades = Array.from({ length: 40 }, (_, n) => n - 20).filter((k) => Math.log2(10 ** k) >= y0 && Math.log2(10 ** k) <= y1);
  for (const k of decades.filter((_, n) => n % Math.ceil(decades.length / 8) === 0)) parts.push(svg("line", { x1: LEFT, x2: W - RIGHT, y1: up(10 ** k), y2: up(10 ** k), class: "rule" }), svg("text", { x: LEFT - 5, y: up(10 ** k) + 4, "text-anchor": "end" }, Math.abs(k) > 3 ? `10${String(k).replace(/./g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)])}` : plain(10 ** k)));
  parts.push(svg("text", { x: (LEFT + W - RIGHT) / 2, y: H - 4, "text-anchor": "middle" }, x));
  for (const { kind, points, line, dot } of drawn) {
    if (line) parts.push(svg("path", { class: `${kind} ${line}`, d: points.map(([a, b], n) => `${n ? "L" : "M"}${across(a).toFixed(1)} ${up(b).toFixed(1)}`).join("") }));
    if (dot) for (const [a, b] of points) parts.push(kind === "naive" ? svg("circle", { class: `${dot} ${kind}`, cx: across(a), cy: up(b), r: 3.6 }) : svg("rect", { class: `${dot} ${kind}`, x: across(a) - 3.3, y: up(b) - 3.3, width: 6.6, height: 6.6 }));
  }
  const picture = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${title}, ${y}` });
  picture.append(...parts);
  const keys = Object.assign(document.createElement("p"), { className: "keys" });
  for (const { name, kind, line, dot } of drawn) {
    const mark = svg("svg", { viewBox: "0 0 22 10", class: "key", "aria-hidden": "true" });
    if (line) mark.append(svg("path", { class: `${kind} ${line}`, d: "M1 5L21 5" }));
    if (dot) mark.append(kind === "naive" ? svg("circle", { class: `${dot} ${kind}`, cx: 11, cy: 5, r: 3.6 }) : svg("rect", { class: `${dot} ${kind}`, x: 7.7, y: 1.7, width: 6.6, height: 6.6 }));
    const key = document.createElement("span");
    key.append(mark, name);
    keys.append(key);
  }
  const figure = Object.assign(document.createElement("figure"), { className: "curve" });
  const caption = Object.assign(document.createElement("figcaption"), { textContent: title });
  const unit = Object.assign(document.createElement("p"), { className: "unit", textContent: y });
  figure.append(caption, unit, picture, keys);
  return figure;
}

function svg(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}

/** Three digits; thousands set apart. */
export function plain(value, digits = 3) {
  if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(digits - 1);
  return value.toLocaleString("en", { maximumSignificantDigits: Math.max(digits, Math.ceil(Math.log10(Math.abs(value) + 1))) });
}
