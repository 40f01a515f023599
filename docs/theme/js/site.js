// The language switcher keeps the current anchor and remembers the choice.
for (const link of document.querySelectorAll("a[data-language]")) {
  const page = link.getAttribute("href");
  const follow = () => {
    link.setAttribute("href", page + location.hash);
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

// Each widget brings its own module; a page without widgets loads none.
for (const element of document.querySelectorAll("[data-widget]")) {
  import(new URL(`./${element.dataset.widget}.js`, import.meta.url)).then((module) => module.default(element));
}
