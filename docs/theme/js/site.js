// The language switcher keeps the current anchor and remembers the choice.
for (const link of document.querySelectorAll("a[data-language]")) {
  const page = link.getAttribute("href");
  const follow = () => {
    link.setAttribute("href", page + location.hash);
    try { localStorage.setItem("language", link.dataset.language); } catch { /* storage may be switched off */ }
  };
  for (const event of ["pointerdown", "focus", "click"]) link.addEventListener(event, follow);
}
