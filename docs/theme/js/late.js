// The search comes when the reader turns to it: until then neither its worker nor its index is fetched (the theme fetches both at once).
{
  const params = new URLSearchParams(location.search);
  const asked = new Promise((resolve) => {
    if (params.has("q") || params.has("h")) resolve();   // the address asks: words to search for, or to mark on the page
    for (const event of ["focusin", "pointerover"]) {
      document.addEventListener(event, ({ target }) => { if (target.closest?.(".md-search, [data-toggle=__search]")) resolve(); });
    }
  });

  const { open, send } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (method, url, ...rest) {
    this.late = /\/search\/search_index\.json$/.test(url);
    return open.call(this, method, url, ...rest);
  };
  XMLHttpRequest.prototype.send = function (...body) {
    if (this.late) asked.then(() => send.apply(this, body)); else send.apply(this, body);
  };

  // The first message carries the index.
  const Threads = window.Worker;
  class LateWorker extends EventTarget {
    constructor(url) { super(); this.url = url; }
    postMessage(message) { (this.worker ??= this.start()).postMessage(message); }
    start() {
      const worker = new Threads(this.url);
      worker.addEventListener("message", ({ data }) => this.dispatchEvent(new MessageEvent("message", { data })));
      return worker;
    }
  }
  window.Worker = new Proxy(Threads, { construct: (_, [url, ...rest]) => (/\/workers\/search\.\w+\.min\.js$/.test(url) ? new LateWorker(url) : new Threads(url, ...rest)) });
}
