// What test_every_page.py asks of a page, evaluated in it. Each function answers with lines, one for each thing that is wrong.
(() => {
  const seen = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true }) && !e.closest("[inert]");
  const name = (e) => {
    const text = (e.getAttribute("aria-label") ?? e.textContent).trim().replace(/\s+/g, " ").slice(0, 50);
    return `<${e.tagName.toLowerCase()}${e.className && typeof e.className === "string" ? ` class="${e.className}"` : ""}> ${JSON.stringify(text)}`;
  };
  const CONTROLS = "a[href], button:not(:disabled), input:not([type=hidden], :disabled), select:not(:disabled), textarea:not(:disabled), summary, [contenteditable=true], [onclick], [tabindex]:not([tabindex='-1']), "
    + "[role=button], [role=link], [role=tab], [role=option], [role=checkbox], [role=radio], [role=switch], [role=slider], [role=menuitem]";

  /** The part of a rectangle that its scrolling or clipping ancestors leave, or null. A fixed ancestor ends the walk. */
  function clipped(rect, element) {
    let { left, right, top, bottom } = rect;
    for (let e = element; e && e !== document.body; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.overflowX !== "visible" || style.overflowY !== "visible" || style.clipPath !== "none") {
        const box = e.getBoundingClientRect();
        left = Math.max(left, box.left); right = Math.min(right, box.right); top = Math.max(top, box.top); bottom = Math.min(bottom, box.bottom);
      }
      if (style.position === "fixed") break;
    }
    left = Math.max(left, 0); right = Math.min(right, innerWidth);
    return right - left > 1 && bottom - top > 1 ? { left, right, top, bottom } : null;
  }

  // A part far from the screen is not laid out (core/parts.py), and `seen` would pass over it.
  for (const part of document.querySelectorAll(".part")) part.style.contentVisibility = "visible";

  function openAll() {
    for (const e of document.querySelectorAll("article details")) e.open = true;
  }

  /** Lines of text on lines of another block, on controls, on pictures; controls on controls. Ink is taken as the middle half of a line's height. */
  function overlaps() {
    scrollTo({ top: 0, behavior: "instant" });
    const things = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const blocks = new Map();
    const block = (e) => {
      if (!blocks.has(e)) blocks.set(e, /^inline$|^contents$|^ruby/.test(getComputedStyle(e).display) ? block(e.parentElement) : e);
      return blocks.get(e);
    };
    const range = document.createRange();
    while (walk.nextNode()) {
      const node = walk.currentNode, parent = node.parentElement;
      if (!node.data.trim() || parent.closest("svg, .katex, script, style, noscript, textarea, option") || !seen(parent)) continue;
      range.selectNodeContents(node);
      for (const line of range.getClientRects()) {
        const quarter = line.height / 4;
        const rect = clipped({ left: line.left, right: line.right, top: line.top + quarter, bottom: line.bottom - quarter }, parent);
        if (rect) things.push({ rect, element: block(parent), text: node.data.trim().slice(0, 40) });
      }
    }
    const BOXES = "button, input, select, textarea, progress, summary, article svg, img, canvas, iframe, .katex-html > .base, a.md-button";
    for (const element of document.querySelectorAll(BOXES)) {
      if (!seen(element) || element.parentElement.closest("svg")) continue;
      const box = element.getBoundingClientRect(), quarter = element.matches(".base") ? box.height / 4 : 0;   // a formula's lines are as high as text's
      const rect = clipped({ left: box.left, right: box.right, top: box.top + quarter, bottom: box.bottom - quarter }, element);
      if (rect) things.push({ rect, element });
    }
    things.sort((a, b) => a.rect.top - b.rect.top);
    const found = new Set();
    things.forEach((a, i) => {
      for (let j = i + 1; j < things.length && things[j].rect.top < a.rect.bottom - 1; j++) {
        const b = things[j];
        if (a.element === b.element) continue;
        if (!(a.text && b.text) && [[a, b], [b, a]].some(([box, inner]) => !box.text && box.element.contains(inner.element))) continue;   // a button's own text
        const width = Math.min(a.rect.right, b.rect.right) - Math.max(a.rect.left, b.rect.left), height = Math.min(a.rect.bottom, b.rect.bottom) - b.rect.top;
        if (width > 2 && height > 1) found.add(`${a.text ? JSON.stringify(a.text) : name(a.element)} lies on ${b.text ? JSON.stringify(b.text) : name(b.element)} (${Math.round(width)} × ${Math.round(height)} px)`);
      }
    });
    return [...found];
  }

  /** Links and controls whose middle another element covers once they are scrolled into view. */
  async function covered() {
    const found = [];
    const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const middle = (e) => {
      const line = e.getClientRects()[0];
      const rect = line && clipped(line, e);
      return rect ? document.elementFromPoint((rect.left + rect.right) / 2, (rect.top + rect.bottom) / 2) : undefined;   // off the screen until something opens it
    };
    for (const e of document.querySelectorAll(CONTROLS)) {
      if (!seen(e) || e.matches("[tabindex]:not(a, button, input, select, textarea, summary)")) continue;
      e.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
      const free = () => {
        const hit = middle(e);
        return hit === undefined || hit !== null && (e.contains(hit) || [...(e.labels ?? [])].some((label) => label.contains(hit)));
      };
      if (free()) continue;
      await frame();   // the theme's side bars follow the scrolling
      if (free()) continue;
      const hit = middle(e);
      found.push(`${name(e)} is covered by ${hit ? name(hit) : "nothing that takes a click"}`);
    }
    scrollTo({ top: 0, behavior: "instant" });
    return found;
  }

  /** On paper: every answer open, nothing cut off at the right, dark on white, no menus. */
  function paper() {
    const found = [];
    for (const e of document.querySelectorAll("article details:not(.controls)")) {   // what moves a picture is not printed
      if ([...e.children].some((part) => part.tagName !== "SUMMARY" && !part.getClientRects().length && getComputedStyle(part).display !== "none")) found.push(`${name(e)} stays closed on paper`);
    }
    for (const e of document.querySelectorAll("article *")) {
      const style = getComputedStyle(e);
      if (style.overflowX !== "visible" && style.display !== "inline" && e.scrollWidth > e.clientWidth + 2 && seen(e) && !e.closest("svg, .katex, textarea")) found.push(`${name(e)} is cut off on paper (${e.scrollWidth} of ${e.clientWidth} px)`);
    }
    for (const e of document.querySelectorAll(".md-header, .md-sidebar, .md-code__nav, .md-footer__link, .md-search, .md-skip")) {
      if (seen(e) && e.getBoundingClientRect().height > 0) found.push(`${name(e)} is printed`);
    }
    for (const e of document.querySelectorAll("article :is(p, li, td, code, h2)")) {
      const [red, green, blue] = getComputedStyle(e).color.match(/[\d.]+/g).map(Number);
      if (0.2126 * red + 0.7152 * green + 0.0722 * blue > 150 && seen(e) && !e.closest(".gpu, .mark, button")) { found.push(`${name(e)} is printed pale (${getComputedStyle(e).color})`); break; }
    }
    return found;
  }

  /** Whatever can be clicked: controls, and what shows a hand. */
  function clickable() {
    const hand = (e) => { const style = getComputedStyle(e); return style.cursor === "pointer" && style.pointerEvents !== "none"; };
    const hands = [...document.body.querySelectorAll("*")].filter((e) => hand(e) && !hand(e.parentElement));
    return [...new Set([...document.querySelectorAll(CONTROLS), ...hands])].filter((e) => seen(e) && clipped(e.getBoundingClientRect(), e.parentElement)
      && !e.closest("svg") && !e.matches(".md-overlay, .md-search__overlay"));   // the veil beside an open search or drawer: Escape does the same
  }

  const LOOK = ["outlineStyle", "outlineWidth", "outlineColor", "boxShadow", "color", "backgroundColor", "borderColor", "textDecorationLine"];
  const look = (e) => [e, e.closest("form"), ...(e.labels ?? [])].filter(Boolean).map((one) => {
    const style = getComputedStyle(one);
    return LOOK.map((key) => (key.startsWith("outline") && style.outlineStyle === "none" ? "" : style[key])).join("|");
  }).join("\n");
  let before, reached, unseen;

  /** Before the first Tab: how everything looks unfocused, and an ear for what is focused. Returns how many stops there can be. */
  function listen() {
    reached = new Set(); unseen = [];
    const stops = document.querySelectorAll(`${CONTROLS}, [tabindex]`);
    before = new Map([...stops].map((e) => [e, look(e)]));
    document.addEventListener("focusin", ({ target }) => {
      if (reached.has(target)) return;
      reached.add(target);
      const same = before.has(target) ? look(target) === before.get(target) : getComputedStyle(target).outlineStyle === "none";   // what a widget made since then has a ring
      if (same) unseen.push(`${name(target)} looks the same with and without the focus`);
    });
    return stops.length;
  }

  /** After the last Tab. A radio's group is reached with one of it (arrow keys), a label with its control. */
  function missed() {
    const has = (e) => reached.has(e)
      || e.type === "radio" && e.name && [...reached].some((r) => r.type === "radio" && r.name === e.name && r.form === e.form);
    const counts = (e) => has(e) || (e.matches("label") ? e.control !== null && has(e.control) : [...(e.labels ?? [])].some(has))
      || e.closest("a, button, summary, label") !== null && e.closest("a, button, summary, label") !== e && counts(e.closest("a, button, summary, label"));
    return [...clickable().filter((e) => !counts(e)).map((e) => `${name(e)} can be clicked and is not reached by Tab`), ...unseen];
  }

  window.holds = { openAll, paper, overlaps, covered, listen, missed, reached: () => reached.size };
})();
