// The page's words (docs/words) for its scripts; a word with {places} becomes a function of what stands there.
const speak = (word) => (typeof word === "object" ? Object.fromEntries(Object.entries(word).map(([name, part]) => [name, speak(part)]))
  : word.includes("{") ? (values) => word.replace(/\{(\w+)\}/g, (_, name) => values[name]) : word);
const all = speak(JSON.parse(document.getElementById("words").textContent));

// The language switcher keeps the heading that is read and what the address asks for (not the search's words), and remembers the choice.
const TOP = 60;   // px that the header covers
function reading() {
  const seen = (heading) => { const { top } = heading.getBoundingClientRect(); return top > -1 && top < innerHeight; };
  const target = document.querySelector("article :target");
  if (target && seen(target)) return location.hash;
  const above = [...document.querySelectorAll("article :is(h2, h3, h4)[id]")].filter((heading) => heading.getBoundingClientRect().top < TOP + innerHeight / 4);
  return scrollY && above.length ? `#${above.at(-1).id}` : "";
}
for (const link of document.querySelectorAll("a[data-language]")) {
  const page = link.getAttribute("href");
  const follow = () => {
    const query = new URLSearchParams(location.search);
    for (const name of ["h", "q"]) query.delete(name);
    link.setAttribute("href", page + (String(query) && `?${query}`) + reading());
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

// Where a link within the page leads; what it is folded in opens, and so does the fold right under a heading.
function arrive() {
  const target = first(":target"), below = target?.nextElementSibling;
  for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  const whole = below?.matches(".part") ? below.firstElementChild : below;
  if (whole?.matches("details")) whole.open = true;
  stay(target, () => target.scrollIntoView({ behavior: "instant" }));
}
addEventListener("hashchange", () => { if (first(":target")?.closest("details:not([open])")) arrive(); });
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

// The colour scheme: the button keeps the other scheme, then its successor takes the focus. A page that is open follows: another tab, and the system where nothing was chosen (js/head.js).
const schemes = document.querySelectorAll("[name=__palette]");
const paint = () => { const { index, color } = __md_get("__palette"); if (document.body.dataset.mdColorScheme !== color.scheme) schemes[index].dispatchEvent(new Event("change")); };
for (const event of ["storage", "pageshow"]) addEventListener(event, paint);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTimeout(paint));   // after the theme, which goes back to what it opened with
for (const button of document.querySelectorAll("button[data-press]")) {
  button.addEventListener("keydown", (event) => event.stopPropagation());
  button.addEventListener("click", () => {
    __md_keep("__palette", [...schemes].findIndex(({ id }) => id === button.dataset.press));
    paint();
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

// What a glossary's word means is its title once a pointer rests on it, and said in place where a finger taps it; so is a measured number's title, by keyboard too.
const note = Object.assign(document.createElement("div"), { className: "glance md-typeset", popover: "auto", tabIndex: -1 });
let finger = false;
addEventListener("pointerdown", ({ pointerType }) => { finger = pointerType !== "mouse"; }, true);
const pages = {};
async function define(link) {
  const address = link.href.split("#")[0], page = await (pages[address] ??= fetch(address).then((response) => response.text()).then((text) => new DOMParser().parseFromString(text, "text/html")));
  link.title ||= page.getElementById(link.hash.slice(1)).nextElementSibling.textContent.trim().split("\n")[0];
}
article.addEventListener("pointerover", ({ target, pointerType }) => pointerType === "mouse" && target.matches("a.term:not([title])") && define(target).catch(() => {}));
async function tell(target) {
  if (target.href) try { await define(target); } catch { location.assign(target.href); return; }
  note.replaceChildren(target.title);
  if (target.href) note.append(" ", Object.assign(document.createElement("a"), { href: target.href, textContent: words.entry }));
  document.body.append(note);
  note.showPopover();
  const { left, top, bottom } = target.getClientRects()[0], { offsetWidth, offsetHeight } = note;
  note.style.left = `${Math.max(8, Math.min(left, innerWidth - offsetWidth - 8))}px`;
  note.style.top = `${bottom + offsetHeight + 8 < innerHeight ? bottom + 6 : Math.max(8, top - offsetHeight - 6)}px`;
  note.focus();
}
if (note.showPopover) {
  for (const number of article.querySelectorAll("data.measured[title]")) {
    if (!number.closest("a, label, summary, button")) { number.tabIndex = 0; number.setAttribute("role", "button"); }
  }
  addEventListener("scroll", () => note.matches(":popover-open") && note.hidePopover(), { passive: true });
  article.addEventListener("click", (event) => {
    const target = event.target.closest("data.measured[role=button], code[title], a.term, a[href*='glossary/#']:not(.headerlink)");
    if (!target || (target.href ? !finger || event.detail === 0 : target.closest("a, label, summary, button"))) return;   // detail 0: by keyboard
    event.preventDefault();
    tell(target);
  });
  article.addEventListener("keydown", (event) => {
    if (!event.target.matches("data.measured") || event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    tell(event.target);
  });
}

// How far the reader came, where the page asks for it: sections whose end was seen are ticked in the contents, and who comes back is offered the place.
const offer = first(".resume");
if (offer) {
  const kept = `read ${location.pathname}`, sections = [...article.querySelectorAll("h2[id]")], read = new Set();
  const shut = () => { offer.hidden = true; };
  let at, waiting;
  try { const held = JSON.parse(localStorage.getItem(kept)); at = held.at; for (const id of held.read) read.add(id); } catch { /* nothing is kept, or storage is switched off */ }
  const tick = () => { for (const id of read) for (const link of document.querySelectorAll(`.md-nav--secondary a[href="#${CSS.escape(id)}"]`)) link.dataset.read = words.read; };
  const keep = () => {
    waiting = clearTimeout(waiting);
    at = reading().slice(1) || at;
    for (const [i, { id }] of sections.entries()) {
      const end = sections[i + 1]?.getBoundingClientRect().top ?? article.getBoundingClientRect().bottom;
      if (end > 0 && end < innerHeight) read.add(id);
    }
    tick();
    if (scrollY > innerHeight) shut();
    try { if (at) localStorage.setItem(kept, JSON.stringify({ at, read: [...read] })); } catch { /* storage may be switched off */ }
  };
  const place = at && !come && document.getElementById(at), [said, link, close] = offer.children;
  if (place) {
    said.textContent = words.came({ n: sections.filter(({ id }) => read.has(id)).length, all: sections.length });
    link.href = `#${at}`;
    link.textContent = place.firstChild.textContent;
    offer.hidden = false;
    for (const button of [link, close]) button.addEventListener("click", shut);
  }
  tick();
  addEventListener("scroll", () => { waiting ??= setTimeout(keep, 400); }, { passive: true });
  addEventListener("pagehide", keep);
}

// A search that does not come (js/late.js).
const press = (textContent, does) => { const made = Object.assign(document.createElement("button"), { type: "button", textContent }); made.addEventListener("click", does); return made; };
addEventListener("search-failed", ({ detail: again }) => {
  const meta = first(".md-search-result__meta");
  meta.setAttribute("role", "status");
  meta.replaceChildren(words.unfound, " ", press(words.again, () => { meta.textContent = words.coming; again(); }));
});

// Each widget brings its own module; a page without widgets loads none. One that asks first (`data-ask`: a button's words) waits for its button.
// Where the module does not come, a line says so, with a button that tries again.
const WAIT = 30_000, shared = { undo: words.undo, newer: words.newer, take: words.take };
export async function bring(element, attempt = "") {
  const name = `${element.dataset.widget}.js`;
  element.querySelector(":scope > .missing")?.remove();
  let module, said = all[element.dataset.widget];
  try {
    [module, said] = await Promise.race([
      Promise.all([import(new URL(`./${name}${attempt}`, import.meta.url)), said ?? import(new URL(`./words-${name}${attempt}`, import.meta.url)).then((own) => speak(own.default))]),
      new Promise((_, refuse) => setTimeout(refuse, WAIT)),
    ]);
  } catch {
    const line = Object.assign(document.createElement("p"), { className: "note missing", textContent: words.missing({ name }) });
    line.setAttribute("role", "alert");
    line.append(" ", press(words.again, () => begin(element, `?${Date.now()}`)));
    element.prepend(line);
    return false;
  }
  module.default(element, said, document.documentElement.lang.slice(0, 2), shared);
  return true;
}
async function begin(element, attempt) {
  if (!await bring(element, attempt) || !element.dataset.ask) return;
  element.querySelector(".bar.start").remove();
  element.querySelector("form:not([hidden]) input, .result:not([hidden])")?.focus();
}
/** One that stands whole without its script (`data-late`) waits until the reader turns to it; what was pressed meanwhile is pressed again. */
function turnedTo(element) {
  let pressed;
  const events = ["pointerover", "focusin"], press = ({ target }) => { pressed = target.closest("button, [type=checkbox]"); };
  const come = () => {
    for (const event of events) element.removeEventListener(event, come);
    bring(element).then((came) => { if (!came) return; element.removeEventListener("click", press); pressed?.click(); });
  };
  element.addEventListener("click", press);
  for (const event of events) element.addEventListener(event, come);
}
for (const element of document.querySelectorAll("[data-widget]")) {
  if ("late" in element.dataset) { turnedTo(element); continue; }
  if (!element.dataset.ask) { begin(element); continue; }
  const there = element.querySelector(".bar.start");   // a button at a page's head is in the page: put in later, it would push the rest down
  const bar = there ?? Object.assign(document.createElement("div"), { className: "bar start" });
  const button = there?.firstElementChild ?? Object.assign(document.createElement("button"), { type: "button", className: "primary", textContent: element.dataset.ask });
  button.addEventListener("click", () => begin(element));
  if (there) continue;
  bar.append(button);
  element.prepend(bar);
}
