// The page's words (docs/words) for its scripts; a word with {places} becomes a function of what stands there.
const speak = (word) => (typeof word === "object" ? Object.fromEntries(Object.entries(word).map(([name, part]) => [name, speak(part)]))
  : word.includes("{") ? (values) => word.replace(/\{(\w+)\}/g, (_, name) => values[name]) : word);
const all = speak(JSON.parse(document.getElementById("words").textContent));

// The language switcher keeps the current anchor and what the address asks for (not the search's words), and remembers the choice.
for (const link of document.querySelectorAll("a[data-language]")) {
  const page = link.getAttribute("href");
  const follow = () => {
    const query = new URLSearchParams(location.search);
    for (const name of ["h", "q"]) query.delete(name);
    link.setAttribute("href", page + (String(query) && `?${query}`) + location.hash);
    try { localStorage.setItem("language", link.dataset.language); } catch { /* storage may be switched off */ }
  };
  for (const event of ["pointerdown", "focus", "click"]) link.addEventListener(event, follow);
}

// Built without SITE_URL, commands that fetch from this site name a stand-in: put the address that the reader sees.
const root = document.querySelector("meta[name=site-root]")?.content;
if (root) {
  const walk = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    if (walk.currentNode.data.includes("ADDRESS-OF-THIS-SITE/")) {
      walk.currentNode.data = walk.currentNode.data.replaceAll("ADDRESS-OF-THIS-SITE/", new URL(root, location.href).href);
    }
  }
}

// Buttons press the theme's hidden check boxes (docs/hooks/core/html.py puts them where the theme has labels).
const first = (selector) => document.querySelector(selector);
for (const button of document.querySelectorAll("button[data-toggle]")) {
  button.addEventListener("click", () => document.getElementById(button.dataset.toggle).click());
}

/** Follow the check box `id`: `covered` rests while it is checked, focus goes in to `inside` and, if it was in there, back to the opener. */
function follow(id, inside, covered) {
  const box = document.getElementById(id);
  const opener = first(`button[data-toggle=${id}][aria-expanded]`);
  if (!box || !opener) return;
  box.addEventListener("change", () => {
    opener.setAttribute("aria-expanded", box.checked);
    const within = document.activeElement?.closest(".md-sidebar--primary, .md-search") || document.activeElement === document.body;
    for (const element of covered()) element.inert = box.checked;
    if (box.checked) first(inside)?.focus();
    else if (within && !moved) opener.focus();
    moved = false;
  });
}
let moved = false;   // a link was followed: focus belongs at its target
addEventListener("hashchange", () => { moved = true; setTimeout(() => { moved = false; }, 500); });
follow("__drawer", ".drawer-close", () => document.querySelectorAll(".md-header, .md-content, .md-footer, .md-sidebar--secondary, [data-md-component=skip], [data-md-component=announce]"));
follow("__toc", ".md-sidebar--primary .md-nav__title[data-toggle=__toc]", () => {
  const item = document.getElementById("__toc").parentElement;
  return [...document.querySelectorAll(".md-nav__item")].filter((other) => !other.contains(item) && !item.contains(other)).concat(first(".drawer-title"), first("button.md-nav__link[data-toggle=__toc]"));
});
follow("__search", ".md-search__input", () => []);
first(".md-search")?.addEventListener("focusout", ({ relatedTarget, currentTarget }) => {
  if (relatedTarget && !currentTarget.contains(relatedTarget)) { moved = true; close("__search"); moved = false; }
});
// The theme searches when a key is let go; dictation, pasting and many input methods let go of none.
first(".md-search__input")?.addEventListener("input", ({ target }) => target.dispatchEvent(new Event("keyup")));
// Its worker cuts Chinese into words, but never sees a run's last word and finds nothing where Latin follows without a blank (在线softmax).
// Each run goes to it between blanks, with a stand-in for a further character, which the separator in mkdocs.zh.yml removes again.
const QUERY = 2, { postMessage } = Worker.prototype;
Worker.prototype.postMessage = function (message, ...rest) {
  if (message?.type === QUERY && typeof message.data === "string") message = { ...message, data: message.data.replace(/\p{Script=Han}+/gu, " $&〇 ") };
  return postMessage.call(this, message, ...rest);
};
// Its hits are links that Tab reaches too, not only the arrow keys; a page that only its sections let find marks on arrival what found them.
const hits = first(".md-search-result__list");
if (hits) new MutationObserver(() => hits.querySelectorAll("a[tabindex]").forEach((hit) => {
  hit.removeAttribute("tabindex");
  const to = new URL(hit.href), section = hit.parentElement.querySelector('a[href*="#"]');
  if (to.searchParams.get("h") || to.hash || !section) return;
  to.searchParams.set("h", new URL(section.href).searchParams.get("h"));
  hit.href = to;
})).observe(hits, { childList: true, subtree: true });
const narrow = matchMedia("(max-width: 76.234375em)");
const close = (id) => { const box = document.getElementById(id); if (box?.checked) box.click(); return box; };
narrow.addEventListener("change", () => close("__drawer"));
document.getElementById("__drawer").addEventListener("change", ({ target }) => { if (!target.checked) { moved = true; close("__toc"); moved = false; } });
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && document.getElementById("__drawer").checked) close(document.getElementById("__toc")?.checked ? "__toc" : "__drawer");
  if (event.key === "Tab" && document.getElementById("__search").checked) event.stopPropagation();   // on to the hits, where the theme would close
  // The theme's one-letter shortcuts turn pages when speech is typed; "/" for the search stays.
  if ("pn,.fs".includes(event.key) && !event.target.closest?.("input, textarea, select, [contenteditable]")) event.stopPropagation();
}, true);

// What is laid out late (core/parts.py) takes its true height then, and may push away what the reader came for: stay with it until the reader moves.
let bound, come;
function stay(target, show) {
  if (!target?.closest("article")) return;
  const until = performance.now() + 500;
  bound = target;
  requestAnimationFrame(function again() {
    if (bound !== target) return;
    show();
    if (performance.now() < until) requestAnimationFrame(again);
  });
}
const move = () => { bound = null; if (come) removeEventListener("load", come); };
for (const event of ["wheel", "touchstart", "keydown", "pointerdown"]) addEventListener(event, move, { passive: true, capture: true });

// Where a link within the page leads.
function arrive() {
  const target = first(":target");
  stay(target, () => target.scrollIntoView({ behavior: "instant" }));
}
addEventListener("click", ({ target, ctrlKey, metaKey, shiftKey }) => {
  const link = target.closest?.("a[href*='#']");
  if (link && !ctrlKey && !metaKey && !shiftKey) setTimeout(() => { if (link.href === location.href) arrive(); });
});

// Where the reader was, after a reload and on the way back: the browser remembers pixels from the page's top, so the page remembers what stood there.
// A part's children are asked only where the part is on the screen: the others would be laid out for it.
const article = first("article") ?? document.createElement("article"), key = `place ${location.pathname}`;
const under = (box) => [...box.children].findIndex((element) => element.getBoundingClientRect().bottom > 60);   // the header covers 60 px
addEventListener("pagehide", () => {
  const at = under(article), block = article.children[at], inner = block?.matches(".part") ? under(block) : -1;
  try { sessionStorage.setItem(key, JSON.stringify(scrollY && block ? [at, inner, (block.children[inner] ?? block).getBoundingClientRect().top] : [])); } catch { /* storage may be switched off */ }
});
function resume() {
  let at, inner, top;
  try { [at, inner, top] = JSON.parse(sessionStorage.getItem(key)) ?? []; } catch { /* storage may be switched off */ }
  const target = article.children[at]?.children[inner] ?? article.children[at];
  stay(target, () => scrollBy({ top: target.getBoundingClientRect().top - top, behavior: "instant" }));
}
if (performance.getEntriesByType("navigation")[0]?.type !== "navigate") come = resume;
else if (location.hash) come = arrive;
if (come) { come(); addEventListener("load", come); }

// The colour scheme: the button presses the other scheme's radio button, then its successor takes the focus.
for (const button of document.querySelectorAll("button[data-press]")) {
  button.addEventListener("keydown", (event) => event.stopPropagation());
  button.addEventListener("click", () => {
    document.getElementById(button.dataset.press).click();
    first("button[data-press]:not([hidden])").focus();
  });
}

// What scrolls inside itself is reached by Tab and says what it is. The theme wraps tables by script, so this comes after.
// What is not laid out yet may scroll: Tab stops there until its size is known.
const words = all.site, kinds = { PRE: words.code, DIV: words.formula, TABLE: words.table };
const sizes = new ResizeObserver((entries) => entries.forEach(({ target: { scroller: target } }) => reach(target, target.scrollWidth > target.clientWidth || target === document.activeElement)));
function reach(target, scrolls) {
  for (const [name, value] of Object.entries({ tabindex: 0, role: "group", "aria-label": target.label })) {
    if (scrolls) target.setAttribute(name, value); else target.removeAttribute(name);
  }
}
document.addEventListener("DOMContentLoaded", () => {
  let heading = "";
  for (const element of article.querySelectorAll("h1, h2, h3, h4, .md-typeset__scrollwrap, pre > code, div.math")) {
    if (/^H\d$/.test(element.tagName)) { heading = element.firstChild.textContent; continue; }
    const kind = element.tagName === "CODE" ? "PRE" : element.classList.contains("math") ? "DIV" : "TABLE";
    element.label = kinds[kind] + words.colon + (element.closest(".highlight")?.querySelector(".filename")?.textContent ?? heading);
    if (element.closest(".part")) reach(element, true);
    for (const part of kind === "PRE" ? [element] : [element, element.firstElementChild]) {   // a formula widens when its fonts arrive
      part.scroller = element;
      sizes.observe(part);
    }
  }
});

// Each widget brings its own module; a page without widgets loads none. One that asks first (`data-ask`: a button's words) waits for its button.
export const bring = (element) => import(new URL(`./${element.dataset.widget}.js`, import.meta.url)).then((module) => module.default(element, all[element.dataset.widget], document.documentElement.lang.slice(0, 2)));
/** One that stands whole without its script (`data-late`) waits until the reader turns to it; what was pressed meanwhile is pressed again. */
function turnedTo(element) {
  let pressed;
  const events = ["pointerover", "focusin"], press = ({ target }) => { pressed = target.closest("button, [type=checkbox]"); };
  const come = () => {
    for (const event of events) element.removeEventListener(event, come);
    bring(element).then(() => { element.removeEventListener("click", press); pressed?.click(); });
  };
  element.addEventListener("click", press);
  for (const event of events) element.addEventListener(event, come);
}
for (const element of document.querySelectorAll("[data-widget]")) {
  if ("late" in element.dataset) { turnedTo(element); continue; }
  if (!element.dataset.ask) { bring(element); continue; }
  const there = element.querySelector(".bar.start");   // a button at a page's head is in the page: put in later, it would push the rest down
  const bar = there ?? Object.assign(document.createElement("div"), { className: "bar start" });
  const button = there?.firstElementChild ?? Object.assign(document.createElement("button"), { type: "button", className: "primary", textContent: element.dataset.ask });
  button.addEventListener("click", () => bring(element).then(() => { bar.remove(); element.querySelector("form:not([hidden]) input, .result:not([hidden])")?.focus(); }));
  if (there) continue;
  bar.append(button);
  element.prepend(bar);
}
