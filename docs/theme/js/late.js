// The search comes when the reader turns to it: until then neither its worker nor its index is fetched (the theme fetches both at once).
{
  const params = new URLSearchParams(location.search);
  const asked = new Promise((resolve) => {
    if (params.has("q") || params.has("h")) resolve();   // the address asks: words to search for, or to mark on the page
    for (const event of ["focusin", "pointerover"]) {
      document.addEventListener(event, ({ target }) => { if (target.closest?.(".md-search, [data-toggle=__search]")) resolve(); });
    }
  });

  // What does not come is told (js/site.js), with what tries again: a wrong status, a cut or endless transfer, another file in its place.
  const WAIT = 30_000;
  const tell = (again) => {
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => tell(again));
    else dispatchEvent(new CustomEvent("search-failed", { detail: again }));
  };

  const { open, send } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (method, url, ...rest) {
    open.call(this, method, url, ...rest);
    this.late = /\/search\/search_index\.json$/.test(url);
    if (!this.late) return;
    let whole = false, clock;
    this.fetch = () => { clock = setTimeout(() => this.abort(), WAIT); send.call(this); };
    const again = () => { open.call(this, method, url); this.fetch(); };
    for (const name of ["load", "error", "abort"]) {   // before the theme's own listeners, which would give up
      this.addEventListener(name, async (event) => {
        clearTimeout(clock);
        if (whole) return;
        event.stopImmediatePropagation();
        try {
          if (this.status !== 200) throw this.status;
          JSON.parse(await this.response.text());
        } catch { return tell(again); }
        whole = true;
        this.dispatchEvent(new ProgressEvent("load"));
      });
    }
  };
  XMLHttpRequest.prototype.send = function (...body) {
    if (this.late) asked.then(() => this.fetch()); else send.apply(this, body);
  };

  // The first message carries the index.
  const Threads = window.Worker;
  class LateWorker extends EventTarget {
    constructor(url) { super(); this.url = url; }
    postMessage(message) { if (this.worker) this.worker.postMessage(message); else this.start(message); }
    start(setup) {
      const worker = this.worker = new Threads(this.url);
      const failed = () => { done(); worker.terminate(); tell(() => this.start(setup)); };
      const clock = setTimeout(failed, WAIT), done = () => { clearTimeout(clock); worker.removeEventListener("error", failed); };
      worker.addEventListener("error", failed);
      worker.addEventListener("message", ({ data }) => { done(); this.dispatchEvent(new MessageEvent("message", { data })); });
      worker.postMessage(setup);
    }
  }
  window.Worker = new Proxy(Threads, { construct: (_, [url, ...rest]) => (/\/workers\/search\.\w+\.min\.js$/.test(url) ? new LateWorker(url) : new Threads(url, ...rest)) });
}
