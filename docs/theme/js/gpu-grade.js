// The grader of a reader's flash kernel: properties in an order in which each excludes the causes behind the next.
import { Device, Failure } from "./gpu-device.js";
import { Attention, d, reference, relative } from "./gpu-attention.js";

const NEAR = 1e-4, CAP = 2 ** 24, MANY = 256;   // threads: more than any device runs in step

/** Inputs of one head: q(i, c), k(j, c), v(j, c) by row and column. */
function tensors(S, q, k, v) {
  const fill = (f) => Float32Array.from({ length: S * d }, (_, n) => f(Math.floor(n / d), n % d));
  return { S, q: fill(q), k: fill(k), v: fill(v) };
}
const wave = (a, b) => (row, column) => Math.sin(a * row + b * column + a);
const own = (row, column) => Math.cos(0.7 * row + 1.3 * column) + 0.2;

const flat = (S) => tensors(S, () => 0, wave(1.1, 0.6), (j, c) => (j % d === c ? 1 : 0));   // every key weighs 1 / S, and o shows the weights
const random = (S) => tensors(S, wave(0.37, 1.9), wave(1.7, 0.53), own);
const rising = (S) => tensors(S, () => 1, (j) => 0.05 * j, own);                             // each tile has a larger maximum than the one before
const low = (S) => tensors(S, () => 1, (j) => -2 - 0.01 * j, own);                           // real scores near −16: a key that is not there would outweigh them
const high = (S) => tensors(S, () => 3, (j) => (j % 5 === 2 ? 40 : -40), own);               // scores of ±960

/** What a kernel would say if it had one mistake, in fp64: names a mistake by its own numbers. */
const SLIPS = {
  scale: ({ q, k, v }) => reference(q, k, v, 1).o,
  divide: ({ q, k, v, l }) => reference(q, k, v).o.map((x) => x * l),
  rescale: (input) => walk(input, 0, 0), rescale_o: (input) => walk(input, 0, 1), rescale_l: (input) => walk(input, 1, 0),
};

/** Online softmax over tiles of Bc that forgets to rescale o or l. */
function walk({ q, k, v, Bc }, keepO, keepL) {
  let m = -Infinity, l = 0, o = new Float64Array(d);
  for (let start = 0; start < k.length / d; start += Bc) {
    const tile = [];
    for (let j = start; j < Math.min(start + Bc, k.length / d); j++) tile.push(q.reduce((sum, x, i) => sum + x * k[j * d + i], 0) / Math.sqrt(d));
    const next = Math.max(m, ...tile), alpha = Math.exp(m - next);
    if (keepL) l *= alpha;
    if (keepO) o = o.map((x) => x * alpha);
    tile.forEach((s, j) => { const p = Math.exp(s - next); l += p; for (let i = 0; i < d; i++) o[i] += p * v[(start + j) * d + i]; });
    m = next;
  }
  return o.map((x) => x / l);
}

/** [{name, passed, why, values}]: why names the mistake and its sentence (wgsl: why: in docs/words), values fill it. Stops at the first that fails. */
export async function grade(code, kernels, seconds = 20) {
  const gpu = await Device.open({ cap: CAP, seconds });
  const attention = new Attention(gpu, kernels, 1), found = [];
  const Bc = Number(/\bBc\s*(?::\s*\w+\s*)?=\s*(\d+)/.exec(code)?.[1] ?? 16);
  const plain = code.replace(/\/\/.*|\/\*[\s\S]*?\*\//g, "");
  const subgroups = /\bsubgroup\w*/.test(plain);

  const output = async ({ S, q, k, v }, rows) => {
    const inputs = {};
    for (const [name, data] of Object.entries({ q, k, v })) {
      inputs[name] = await gpu.buffer(name, data.byteLength);
      gpu.device.queue.writeBuffer(inputs[name], 0, data);
    }
    const built = await attention.flash(S, inputs, { code, rows, blocks: Math.ceil(S / rows) });
    await gpu.run(built.jobs);
    const [o, lse] = await gpu.read([[built.buffers.o, 0, S * d], [built.buffers.lse, 0, S]]);
    gpu.free(...Object.values(inputs), ...built.made);
    return { o, lse };
  };
  const truth = ({ S, q, k, v }) => Array.from({ length: S }, (_, row) => reference(q.subarray(row * d, (row + 1) * d), k, v));
  const off = (o, wanted) => wanted.findIndex((row, n) => !(relative(o.subarray(n * d, (n + 1) * d), row.o) <= NEAR));
  const slip = (input, o, row, names) => {
    const q = input.q.subarray(row * d, (row + 1) * d), mine = o.subarray(row * d, (row + 1) * d), right = reference(q, input.k, input.v);
    const m = right.lse, top = Math.max(...Array.from({ length: input.S }, (_, j) => q.reduce((sum, x, i) => sum + x * input.k[j * d + i], 0) / Math.sqrt(d)));
    return names.find((name) => relative(mine, SLIPS[name]({ ...input, q, Bc, l: Math.exp(m - top) })) <= NEAR);
  };
  const pair = (o, wanted, row) => {
    const column = wanted[row].o.findIndex((x, i) => !(Math.abs(o[row * d + i] - x) <= NEAR * Math.max(...wanted[row].o.map(Math.abs))));
    return { row, column, got: show(o[row * d + column]), expected: show(wanted[row].o[column]) };
  };
  /** The output with `rows` threads against fp64; `name(o, row)` names the mistake. */
  const right = async (input, rows, name) => {
    const wanted = truth(input), { o } = await output(input, rows), row = off(o, wanted);
    return row < 0 ? null : { why: name(o, row), values: { ...pair(o, wanted, row), S: input.S, threads: rows } };
  };

  const PROPERTIES = {
    compiles: async () => { await gpu.pipeline("yours", code, { Br: 1 }); },
    keys: () => {   // one thread has nobody to share the loading with
      const input = flat(2 * Bc <= d ? 2 * Bc : d), { S } = input;
      return right(input, 1, (o) => {
        const missing = Array.from({ length: S }, (_, j) => j).filter((j) => o[j] === 0);
        return missing.length && missing.length < S ? (subgroups ? "subgroup" : "missing") : slip(input, o, 0, ["divide"]) ?? "softmax";
      });
    },
    softmax: () => { const input = random(Math.min(Bc, 16)); return right(input, 1, (o, row) => slip(input, o, row, ["scale", "divide"]) ?? "softmax"); },
    rescale: () => { const input = rising(4 * Bc); return right(input, 1, (o, row) => slip(input, o, row, ["rescale", "rescale_o", "rescale_l"]) ?? "tiles"); },
    edge: () => right(low(2 * Bc + 5), 1, () => "edge"),
    large: () => right(high(2 * Bc), 1, () => "large"),
    threads: async () => {
      let bad = null;   // more than once: a race may be won by chance
      for (let n = 0; n < 3 && !bad; n++) bad = await right(random(4 * Bc + 5 + n), MANY, () => (subgroups ? "subgroup" : "barrier"));
      return bad;
    },
    lse: async () => {
      const input = random(2 * Bc + 3), wanted = truth(input), { lse } = await output(input, MANY);
      const row = wanted.findIndex((one, n) => !(Math.abs(lse[n] - one.lse) <= NEAR * Math.max(1, Math.abs(one.lse))));
      return row < 0 ? null : { why: "lse", values: { row, S: input.S, got: show(lse[row]), expected: show(wanted[row].lse) } };
    },
    barriers: async () => {   // on a device where a workgroup is one subgroup a race may stay unseen
      const count = (plain.match(/\bworkgroup(Barrier|UniformLoad)\s*\(/g) ?? []).length;
      return count >= 2 ? null : { why: "barriers", values: { count } };
    },
  };
  try {
    for (const [name, check] of Object.entries(PROPERTIES)) {
      let bad;
      try {
        bad = await check();
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        bad = { why: error.status === "slow" ? "endless" : ["code", "lost", "hidden", "stopped"].includes(error.status) ? error.status : "refused", line: error.line, values: { said: error.detail, line: error.line ?? "" } };
      }
      found.push({ name, passed: !bad, ...(bad ?? {}) });
      if (bad) break;
    }
  } finally { gpu.close(); }
  return { found, all: Object.keys(PROPERTIES) };
}

/** Each kernel's time on the same random inputs. */
export async function race(codes, { H, S }) {
  const gpu = await Device.open({ cap: 2 ** 27, seconds: 20 });
  try {
    const attention = new Attention(gpu, {}, H), inputs = await attention.inputs(S), timed = [];
    for (const code of codes) {
      const built = await attention.flash(S, inputs, { code });
      timed.push(await gpu.time(built.jobs));
      gpu.free(...built.made);
    }
    return timed;
  } finally { gpu.close(); }
}

function show(x) { return Number.isNaN(x) ? "NaN" : Number.isFinite(x) ? String(Number(x.toPrecision(5))) : x > 0 ? "∞" : "−∞"; }
