// The root page: on to the language that the reader chose before, else to the browser's. Without scripts both links stay.
let chosen = null;
try { chosen = localStorage.getItem("language"); } catch { /* storage may be switched off */ }
if (!["en", "zh"].includes(chosen)) {
  chosen = navigator.languages.map((tag) => tag.slice(0, 2)).find((tag) => tag === "en" || tag === "zh") ?? "en";
}
location.replace(`${chosen}/${location.search}${location.hash}`);
