// Naive and flash attention on a Device: bytes by the formula, then by the buffers; outputs against fp64; until naive is refused.
import { Failure } from "./gpu-device.js";

export const d = 64, KERNELS = ["matmul", "softmax", "flash", "copy"];
const ROWS = 64, TILE = 64, TOLERANCE = 1e-4;

/** Bytes of every buffer, by name, as predicted: fp32, B = 1. */
export const predicted = {
  naive: (H, S) => ({ q: 4 * H * S * d, k: 4 * H * S * d, v: 4 * H * S * d, o: 4 * H * S * d, s: 4 * H * S * S, p: 4 * H * S * S }),
  flash: (H, S) => ({ q: 4 * H * S * d, k: 4 * H * S * d, v: 4 * H * S * d, o: 4 * H * S * d, lse: 4 * H * S }),
};

export const total = (bytes) => Object.values(bytes).reduce((sum, size) => sum + size, 0);

/** The largest S whose H · S² scores fit one buffer of `limit` bytes. */
export function largestS(limit, H) {
  let S = Math.floor(Math.sqrt(limit / (4 * H)));
  while (4 * H * S * S > limit) S--;
  while (4 * H * (S + 1) * (S + 1) <= limit) S++;
  return S;
}

/** Numbers from −1 to 1 of one head of q, k or v; the same on every device. */
export function values(tensor, head, count) {
  let state = (2026 + 7919 * tensor + 104729 * head) >>> 0 || 1;
  const out = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    state ^= state << 13; state ^= state >>> 17; state ^= state << 5;
    out[i] = (state | 0) / 2147483648;
  }
  return out;
}

/** o and lse of one query row in fp64: q_row of d numbers, k and v of S rows. */
export function reference(q_row, k, v, scale = 1 / Math.sqrt(d)) {
  const S = k.length / d, s = new Float64Array(S), o = new Float64Array(d);
  let m = -Infinity, l = 0;
  for (let j = 0; j < S; j++) {
    let sum = 0;
    for (let i = 0; i < d; i++) sum += q_row[i] * k[j * d + i];
    s[j] = sum * scale;
    m = Math.max(m, s[j]);
  }
  for (let j = 0; j < S; j++) {
    const p = Math.exp(s[j] - m);
    l += p;
    for (let i = 0; i < d; i++) o[i] += p * v[j * d + i];
  }
  return { o: o.map((x) => x / l), lse: m + Math.log(l) };
}

/** Largest difference of the rows, against the largest number of the reference; NaN is infinitely wrong. */
export function relative(found, wanted) {
  let off = 0, size = 0;
  for (let i = 0; i < wanted.length; i++) {
    const error = Math.abs(found[i] - wanted[i]);
    off = error >= 0 ? Math.max(off, error) : Infinity;
    size = Math.max(size, Math.abs(wanted[i]));
  }
  return off / size;
}

/** The lengths that are tried: doubling, then the longest that the formula says will fit, and the first that will not. */
export function lengths(limit, H, from, upto) {
  const fits = largestS(limit, H), out = [];
  for (let S = from; S < fits && S <= upto; S *= 2) out.push(S);
  return { grow: out, fits, refused: fits + 1 };
}

/** The S at which the refusal is asked for: the first that the limits refuse. A buffer that can be made and only not be bound has to be made for it,
    so where that would pass `cap` bytes, it is the first S for which no buffer can be made: that costs nothing. */
export function refusedAt({ maxBufferSize, maxStorageBufferBindingSize }, cap, H) {
  const S = largestS(Math.min(maxBufferSize, maxStorageBufferBindingSize), H) + 1, scores = 4 * H * S * S;
  return scores <= maxBufferSize && scores + total(predicted.flash(H, S)) > cap ? largestS(maxBufferSize, H) + 1 : S;
}

export class Attention {
  constructor(gpu, kernels, H) { Object.assign(this, { gpu, kernels, H, rate: {} }); }

  /** q, k and v on the device, head by head. */
  async inputs(S) {
    const out = {};
    for (const [n, name] of ["q", "k", "v"].entries()) {
      out[name] = await this.gpu.buffer(name, 4 * this.H * S * d);
      for (let head = 0; head < this.H; head++) this.gpu.device.queue.writeBuffer(out[name], 4 * head * S * d, values(n, head, S * d));
    }
    return out;
  }

  /** The dispatches of naive: q kᵀ, softmax, p v. Fails where a buffer or its binding is refused. */
  async naive(S, { q, k, v }) {
    const { gpu, H } = this, scale = 1 / Math.sqrt(d), made = [];
    const make = async (...what) => { made.push(await gpu.buffer(...what)); return made.at(-1); };
    try {
      const s = await make("s", 4 * H * S * S);
      const blocks = (n) => Math.ceil(n / TILE);
      const shape = async (...what) => { made.push(await gpu.uniform(packed(...what))); return made.at(-1); };
      const scores = await gpu.job("matmul", this.kernels.matmul, [await shape(S, S, d, 1, [scale]), q, k, s], [blocks(S), blocks(S), H]);
      const p = await make("p", 4 * H * S * S);
      const o = await make("o", 4 * H * S * d);
      const softmax = await gpu.job("softmax", this.kernels.softmax, [await shape(S), s, p], [S, H]);
      const output = await gpu.job("matmul", this.kernels.matmul, [await shape(S, d, S, 0, [1]), p, v, o], [blocks(d), blocks(S), H]);
      return { jobs: [scores, softmax, output], buffers: { o, s, p }, made };
    } catch (error) { gpu.free(...made); throw error; }
  }

  /** The one dispatch of flash; `blocks` of 64 rows, or all of them. */
  async flash(S, { q, k, v }, { code = this.kernels.flash, blocks = Math.ceil(S / ROWS), rows = ROWS } = {}) {
    const { gpu, H } = this, made = [];
    const make = async (...what) => { made.push(await gpu.buffer(...what)); return made.at(-1); };
    try {
      const o = await make("o", 4 * H * S * d), lse = await make("lse", 4 * H * S);
      made.push(await gpu.uniform(packed(S, [1 / Math.sqrt(d)])));
      const job = await gpu.job("flash", code, [made.at(-1), q, k, v, o, lse], [blocks, H], { Br: rows });
      return { jobs: [job], buffers: { o, lse }, made };
    } catch (error) { gpu.free(...made); throw error; }
  }

  /** One row of the result: build, run, check, time. `part`: only the first tile of rows, neither timed nor compared in bytes. */
  async row(impl, S, inputs, { part = false } = {}) {
    const { gpu, H } = this;
    const bytes = predicted[impl](H, S), limit = Object.values(bytes).find((size) => size > gpu.limit);
    const row = { part: "attention", impl, B: 1, heads: H, S, d, dtype: "fp32", bytes: null, predicted_bytes: total(bytes), largest_buffer_bytes: Math.max(...Object.values(bytes)), ms: null, min_ms: null, max_ms: null, samples: 0, repeats: 0, timer: null,
      traffic_bytes: traffic(impl, H, S), flop: 4 * H * S * S * d, tflops: null, rel_err: null, rows_checked: 0, buffers: null, refused_by: null, kernel: null, status: "ok" };
    let built;
    try {
      // What must be refused by the limits is asked for; what would pass the announced memory is not.
      const refusable = Object.values(bytes).some((size) => size > gpu.device.limits.maxBufferSize);
      if (!refusable && total(bytes) + slack > gpu.cap && !(limit && gpu.held + limit <= gpu.cap)) throw new Failure("cap", String(total(bytes)));
      const guess = this.guess(impl, S);
      if (!part && !limit && (guess > gpu.left * 1000 || guess > 9000)) throw new Failure("slow", String(Math.round(guess)));
      built = await this[impl](S, inputs, part ? { blocks: 1 } : {});
      row.buffers = Object.fromEntries(Object.entries({ ...inputs, ...built.buffers }).map(([name, buffer]) => [name, buffer.size]));
      row.bytes = total(row.buffers);
      row.kernel = { naive: "matmul.wgsl + softmax.wgsl + matmul.wgsl", flash: "flash.wgsl" }[impl];
      await gpu.run(built.jobs);
      Object.assign(row, await this.check(S, built.buffers, part ? Math.min(ROWS, S) : S));
      if (!(row.rel_err <= TOLERANCE)) row.status = "wrong";
      if (part) row.status = row.status === "wrong" ? "wrong" : "part";
      else {
        Object.assign(row, await gpu.time(built.jobs));
        row.tflops = row.flop / row.ms / 1e9;
        this.rate[impl] = row.ms / (S * S);
      }
    } catch (error) {
      if (!(error instanceof Failure) || ["lost", "hidden", "stopped", "code"].includes(error.status)) throw error;
      row.status = error.status;
      row.refused_by = error.detail.slice(0, 300);
      if (error.status === "refused") row.limit_bytes = gpu.limit;
    }
    if (built) gpu.free(...built.made);
    return row;
  }

  /** Milliseconds that a row will take, warm-up and samples included, from the row before. */
  guess(impl, S) { return this.rate[impl] ? 6 * Math.max(10, this.rate[impl] * S * S) : 0; }

  /** Sampled rows of the first `rows` of each head against fp64. */
  async check(S, { o, lse }, rows) {
    const sample = [...new Set([0, 1, Math.floor(rows / 3), Math.floor(rows / 2), rows - 2, rows - 1])].filter((row) => row >= 0);
    const heads = [...new Set([0, this.H - 1])], parts = [];
    for (const head of heads) for (const row of sample) {
      parts.push([o, (head * S + row) * d, d]);
      if (lse) parts.push([lse, head * S + row, 1]);
    }
    const found = await this.gpu.read(parts);
    let worst = 0;
    for (const head of heads) {
      const [q, k, v] = [0, 1, 2].map((tensor) => values(tensor, head, S * d));
      for (const row of sample) {
        const wanted = reference(q.subarray(row * d, (row + 1) * d), k, v);
        worst = Math.max(worst, relative(found.shift(), wanted.o));
        if (lse) worst = Math.max(worst, Math.abs(found.shift()[0] - wanted.lse) / Math.max(1, Math.abs(wanted.lse)));
      }
    }
    return { rel_err: worst, rows_checked: heads.length * sample.length };
  }

  /** Two ceilings of this device: a copy, and a matrix product with the kernel that naive uses. */
  async ceilings(hear, from, upto) {
    const { gpu } = this, rows = [];
    const row = (impl, more) => ({ part: "ceiling", impl, dtype: "fp32", status: "ok", ...more });
    const size = 2 ** Math.floor(Math.log2(Math.min(gpu.limit, gpu.cap / 4, 2 ** 28)));
    const [x, y] = [await gpu.buffer("x", size), await gpu.buffer("y", size)];
    hear("copy");
    const copy = await gpu.time([await gpu.job("copy", this.kernels.copy, [x, y], [4096])]);
    rows.push(row("copy", { traffic_bytes: 2 * size, flop: 0, ...copy, gbps: (2 * size) / copy.ms / 1e6, tflops: null, kernel: "copy.wgsl" }));
    gpu.free(x, y);
    let best = null, ms = 0;
    for (let n = from; n <= Math.min(4096, upto) && 12 * n * n <= Math.min(gpu.cap, 3 * gpu.limit) && (!best || (ms < 25 && gpu.left * 1000 > 8 * 8 * ms)); n *= 2) {
      hear("matmul");
      const [a, b, c, shape] = [await gpu.buffer("a", 4 * n * n), await gpu.buffer("b", 4 * n * n), await gpu.buffer("c", 4 * n * n), await gpu.uniform(packed(n, n, n, 0, [1]))];
      const timed = await gpu.time([await gpu.job("matmul", this.kernels.matmul, [shape, a, b, c], [Math.ceil(n / TILE), Math.ceil(n / TILE), 1])]);
      gpu.free(a, b, c, shape);
      ms = timed.ms;
      const now = row("matmul", { S: n, traffic_bytes: 12 * n * n, flop: 2 * n ** 3, ...timed, gbps: null, tflops: (2 * n ** 3) / ms / 1e9, kernel: "matmul.wgsl" });
      if (!best || now.tflops > best.tflops) best = now;
    }
    return [...rows, best];
  }
}

const slack = 4096;   // shapes, timestamps, the rows that are read back

/** Each dispatch reads its inputs once and writes its result once: naive's scores and p cross four times. */
export function traffic(impl, H, S) { return impl === "naive" ? 16 * H * S * S + 16 * H * S * d : 16 * H * S * d + 4 * H * S; }

/** Whole numbers as u32, numbers in brackets as f32. */
function packed(...numbers) {
  const view = new DataView(new ArrayBuffer(4 * numbers.length));
  numbers.forEach((x, i) => (Array.isArray(x) ? view.setFloat32(4 * i, x[0], true) : view.setUint32(4 * i, x, true)));
  return new Uint8Array(view.buffer);
}

/** All rows, told one by one to `hear({row} | {doing})`. Returns {rows, why}: why it ended before its end, or null. */
export async function measure(gpu, kernels, { H, charts, from = 256, upto = Infinity }, hear) {
  const attention = new Attention(gpu, kernels, H), rows = [];
  const tell = (row) => { rows.push(row); hear({ row }); return row; };
  const { grow, fits, refused } = lengths(gpu.limit, H, from, upto);
  try {
    if (charts) for (const row of await attention.ceilings((doing) => hear({ doing }), from, upto)) tell(row);
    let naive = true, flash = true;
    const both = async (S, part = false) => {
      hear({ doing: "attention", S });
      let inputs;
      try {
        if (total(predicted.flash(H, S)) + slack > gpu.cap) throw new Failure("cap", String(total(predicted.flash(H, S))));
        inputs = await attention.inputs(S);
      } catch (error) {
        if (!(error instanceof Failure) || !["cap", "oom", "refused"].includes(error.status)) throw error;
        return null;
      }
      try {
        const found = {};
        if (naive) found.naive = tell(await attention.row("naive", S, inputs));
        if (flash || part) {
          found.flash = await attention.row("flash", S, inputs);
          if (found.flash.status === "slow" && part) found.flash = await attention.row("flash", S, inputs, { part: true });
          tell(found.flash);
        }
        return found;
      } finally { gpu.free(...Object.values(inputs)); }
    };
    for (const S of grow) {
      if (!naive && !flash) break;
      const found = await both(S);
      if (!found) break;
      naive &&= found.naive.status === "ok" || found.naive.status === "wrong";
      flash &&= found.flash?.status === "ok" || found.flash?.status === "wrong";
    }
    if (naive && fits > (grow.at(-1) ?? 0)) { const found = await both(fits); naive = found?.naive.status === "ok"; }
    const at = refusedAt(gpu.device.limits, gpu.cap, H);
    naive = true;
    await both(at, true);
    naive = false;
    for (let S = 2 ** Math.ceil(Math.log2(at)); flash; S *= 2) flash = (await both(S))?.flash.status === "ok";
    return { rows, fits, refused, why: null };
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return { rows, fits, refused, why: error };
  }
}
