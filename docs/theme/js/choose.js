// The root page: on to the language that the reader chose before, else to the browser's. Without scripts both links stay.
const languages = document.currentScript.dataset.languages.split(" ");
let chosen = null;
try { chosen = localStorage.getItem("language"); } catch { /* storage may be switched off */ }
if (!languages.includes(chosen)) {
  chosen = navigator.languages.map((tag) => tag.slice(0, 2)).find((tag) => languages.includes(tag)) ?? languages[0];
}
location.replace(`${chosen}/${location.search}${location.hash}`);
