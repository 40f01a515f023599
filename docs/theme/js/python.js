/** One Python of a widget: starts on demand, runs files, can be ended at any moment. Nothing is fetched before start(). */
export class Python {
  #worker; #starting; #progress; #runs = new Map(); #id = 0;

  /** base: address of Pyodide's folder. bytes: what starting it fetches, for the progress. */
  constructor({ base = new URL("../../assets/pyodide/", import.meta.url).href, bytes = 0 } = {}) {
    this.base = base;
    this.bytes = bytes;
    this.version = "";
  }

  /** Starts Python unless it is there; resolves to its version. progress({loaded, total}) while it is fetched. */
  start(progress) {
    this.#progress = progress ?? this.#progress;
    this.#starting ??= new Promise((resolve, reject) => {
      const worker = new Worker(new URL("./python-worker.js", import.meta.url), { type: "module" });
      let clock;
      const wait = () => { clearTimeout(clock); clock = setTimeout(failed, WAIT, "timeout"); };   // a fetch that never ends says nothing
      const failed = (message) => { clock = clearTimeout(clock); if (this.#worker === worker) this.#end(); reject(new Error(message)); };
      this.#worker = worker;
      this.abandon = () => reject(new Stopped());
      worker.onerror = (event) => { event.preventDefault(); failed(event.message || "the worker did not start"); };
      worker.onmessage = ({ data }) => {
        if (clock) wait();
        if (data.loaded) this.#progress?.({ loaded: data.loaded, total: Math.max(this.bytes, data.loaded) });
        else if (data.ready) { clock = clearTimeout(clock); resolve(this.version = data.ready); }
        else if (data.failed) failed(data.failed);
        else this.#hear(data);
      };
      wait();
      worker.postMessage({ start: this.base });
    });
    return this.#starting;
  }

  /** Runs `entry`, one of `files` ({name: text}). Resolves to {ok, error: {type, message, line, module} | null, total, stopped}. */
  async run(files, entry, { onStdout, onStderr, onCut, argv = [] } = {}) {
    try {
      await this.start();
    } catch (error) {
      if (error instanceof Stopped) return STOPPED;
      throw error;
    }
    const id = ++this.#id;
    return new Promise((resolve) => {
      this.#runs.set(id, { resolve, onStdout, onStderr, onCut });
      this.#worker.postMessage({ id, files, run: entry, argv });
    });
  }

  /** Ends what runs, at once. The next run starts a fresh Python, from the browser's cache. */
  stop() {
    const runs = [...this.#runs.values()];
    const abandon = this.abandon;
    this.#end();
    abandon?.();
    for (const { resolve } of runs) resolve(STOPPED);
  }

  get running() { return this.#runs.size > 0; }

  #hear({ id, stdout, stderr, cut, done }) {
    const run = this.#runs.get(id);
    if (!run) return;
    if (stdout !== undefined) run.onStdout?.(stdout);
    if (stderr !== undefined) run.onStderr?.(stderr);
    if (cut) run.onCut?.(cut);
    if (done) {
      this.#runs.delete(id);
      if (done.error?.type === "fatal") this.#end();
      run.resolve(done);
    }
  }

  #end() {
    this.#worker?.terminate();
    this.#worker = this.#starting = this.abandon = undefined;
    this.#runs.clear();
  }
}

const WAIT = 60_000;
class Stopped extends Error { stopped = true; }
const STOPPED = { ok: false, stopped: true, error: null };
