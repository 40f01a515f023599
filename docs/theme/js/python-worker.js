// Python, in a worker: an endless loop here does not hold up the page, and ending the worker ends it.
//
// In:  {start: address of Pyodide's folder}
//      {id, files: {name: text}, run: name of one of them, argv}
// Out: {loaded: bytes fetched so far}, {ready: version} or {failed: message}
//      {id, stdout: text}, {id, stderr: text}, {id, cut: stream}, {id, done: {ok, error}}

const LIMIT = 100_000;      // characters of each stream that reach the page; what comes after is counted only
const BURST = 400;          // messages at once; later ones are gathered into blocks
const BLOCK = 8192, PAUSE = 50;

// Only the reader's frames are shown. Modules of a former run go, so that an edited file is read again.
const RUNNER = `
import linecache, os, sys
def run_file(name, argv):
    for other in [n for n, m in sys.modules.items() if (getattr(m, "__file__", None) or "").startswith(os.getcwd() + "/")]:
        del sys.modules[other]
    linecache.clearcache()
    module = type(sys)("__main__")
    module.__file__ = name
    sys.modules["__main__"], sys.argv = module, [name, *argv]
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        try:
            with open(name, "rb") as file:
                code = compile(file.read(), name, "exec")
            exec(code, module.__dict__)
        finally:
            sys.stdout.flush()
    except SystemExit as end:
        if end.code is None or end.code == 0:
            return None
        if not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
        return {"type": "SystemExit", "message": str(end.code), "line": None, "module": None}
    except BaseException as error:
        import traceback
        frames = error.__traceback__.tb_next
        if isinstance(error, ModuleNotFoundError) and error.name:
            error.msg = error.args = f"No module named {error.name!r}",
            error.msg = error.args[0]
        shown = traceback.TracebackException(type(error), error, frames, compact=True)
        print("".join(shown.format(colorize=False)), end="", file=sys.stderr)
        lines = [frame.lineno for frame in shown.stack if frame.filename == name]
        if isinstance(error, SyntaxError) and error.filename == name:
            lines.append(error.lineno)
        return {"type": type(error).__name__, "message": str(error), "line": lines[-1] if lines else None, "module": getattr(error, "name", None)}
    finally:
        sys.stderr.flush()
    return None
`;

let python, runFile, current;

/** Text of one stream of one run, sent on in few messages and up to a limit. */
class Stream {
  constructor(id, name) {
    Object.assign(this, { id, name, decoder: new TextDecoder(), waiting: "", sent: 0, total: 0, last: 0 });
  }
  write(bytes) {
    this.total += bytes.length;
    if (this.sent >= LIMIT) return bytes.length;
    this.waiting += this.decoder.decode(bytes, { stream: true });
    const now = performance.now();
    current.allowance = Math.min(BURST, current.allowance + (now - current.time) / 10);
    current.time = now;
    if (current.allowance >= 1 || this.waiting.length >= BLOCK || now - this.last > PAUSE) this.flush(now);
    return bytes.length;
  }
  flush(now = 0) {
    if (!this.waiting) return;
    const text = this.waiting.slice(0, LIMIT - this.sent);
    postMessage({ id: this.id, [this.name]: text });
    this.sent += text.length;
    if (this.sent >= LIMIT) postMessage({ id: this.id, cut: this.name });
    this.waiting = "";
    this.last = now;
    current.allowance -= 1;
  }
}

async function start(base) {
  const fetched = globalThis.fetch;
  let loaded = 0, told = 0;
  const tell = () => { told = performance.now(); postMessage({ loaded }); };
  // The two large files are asked for at once, while Pyodide's own code is still on its way.
  const early = new Map(["pyodide.asm.wasm", "python_stdlib.zip"].map((name) => [base + name, fetched(base + name)]));
  for (const promise of early.values()) promise.catch(() => {});
  globalThis.fetch = async (...request) => {
    const address = String(request[0]);
    let response;
    try {
      response = await (early.get(address) ?? fetched(...request));
      early.delete(address);
      if (!response.ok) throw new Error(`${response.status}`);
    } catch (error) {   // Pyodide would wait for ever
      postMessage({ failed: `${address.split("/").at(-1)}: ${error.message}` });
      throw error;
    }
    if (!response.body) return response;
    const counted = response.body.pipeThrough(new TransformStream({
      transform(chunk, out) {
        loaded += chunk.byteLength;
        if (performance.now() - told > 100) tell();
        out.enqueue(chunk);
      },
      flush: tell,
    }));
    // A server that does not know the type of .wasm is no hindrance.
    return new Response(counted, address.endsWith(".wasm") ? { headers: { "Content-Type": "application/wasm" } } : response);
  };
  const instantiate = WebAssembly.instantiateStreaming;
  WebAssembly.instantiateStreaming = (...request) => instantiate(...request).catch((error) => {   // Pyodide would wait for ever
    postMessage({ failed: `pyodide.asm.wasm: ${error.message}` });
    throw error;
  });
  try {
    const { loadPyodide } = await import(base + "pyodide.mjs");
    python = await loadPyodide({ indexURL: base });
    python.runPython(RUNNER);
    runFile = python.globals.get("run_file");
    python.runPython("del run_file");
    const write = (name) => ({ write: (bytes) => (current ? current[name].write(bytes) : bytes.length) });
    python.setStdout(write("stdout"));
    python.setStderr(write("stderr"));
    python.setStdin({ stdin: () => null });
    postMessage({ ready: python.runPython("import sys; sys.version.split()[0]") });
  } catch (error) {
    postMessage({ failed: String(error?.message ?? error) });
  } finally {
    globalThis.fetch = fetched;
  }
}

function run({ id, files, run: entry, argv = [] }) {
  current = { stdout: new Stream(id, "stdout"), stderr: new Stream(id, "stderr"), allowance: BURST, time: performance.now() };
  let error = null;
  try {
    for (const [name, text] of Object.entries(files)) {
      const folder = name.split("/").slice(0, -1).join("/");
      if (folder) python.FS.mkdirTree(folder);
      python.FS.writeFile(name, text);
    }
    const list = python.toPy(argv);
    const answer = runFile(entry, list);
    list.destroy();
    if (answer) {
      error = answer.toJs({ dict_converter: Object.fromEntries });
      answer.destroy();
    }
  } catch (broken) {   // the interpreter itself gave up: the page starts a fresh one
    error = { type: "fatal", message: String(broken?.message ?? broken), line: null, module: null };
  }
  current.stdout.flush();
  current.stderr.flush();
  const total = current.stdout.total + current.stderr.total;
  current = undefined;
  postMessage({ id, done: { ok: error === null, error, total } });
}

addEventListener("message", ({ data }) => (data.start ? start(data.start) : run(data)));
