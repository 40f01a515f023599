// Before anything is drawn: what the theme keeps, kept for both languages at once. The system's colour scheme holds until the reader chooses one,
// and where the browser keeps nothing every page works, for as long as it is open.
{
  const { pathname } = new URL(document.currentScript.dataset.root, location), held = {};
  const name = (key) => `${pathname}.${key}`;
  window.__md_keep = (key, value) => { held[key] = value; try { localStorage.setItem(name(key), JSON.stringify(value)); } catch { /* storage may be switched off */ } };
  window.__md_get = (key) => {
    let value = held[key] ?? null;
    try { value = JSON.parse(localStorage.getItem(name(key))) ?? value; } catch { /* switched off, or not ours */ }
    if (key !== "__palette") return value;
    const index = value === 0 || value === 1 ? value : Number(matchMedia("(prefers-color-scheme: dark)").matches);
    return { index, color: { scheme: ["default", "slate"][index] } };
  };
  window.__md_set = (key, value) => { if (key !== "__palette") __md_keep(key, value); };   // the theme says the scheme of every page that opens: no choice of the reader's
}
