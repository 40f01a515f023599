// The formulas of the labs, for the page. They are defined in examples/flash_vs_naive_memory.py, hbm_traffic.py, attention_roofline.py
// and decode_attention.py; tests/test_calculator.py holds these to those, exactly, on 10,000 random shapes in a browser.
//
// Names and order of arguments are Python's, in camelCase. Counts go in as Number (safe integers) or BigInt, from 1 on; bytes, FLOPs and
// counts come out as BigInt, because they pass 2^53; times and ratios come out as Number. What is outside the domain throws a RangeError
// that names the argument. e is the bytes of an element (2: bf16, fp16), sms the multiprocessors of the card.

/** Bytes alive in naive(), moment by moment, {moment: bytes}. heads is a multiple of kvHeads. */
export function naiveMoments(B, heads, kvHeads, S, d, e = 2, causal = false) {
  [B, heads, kvHeads, S, d, e] = shape({ B, heads, kvHeads, S, d, e }, { causal });
  const rows = B * heads * S * d * e;
  const inputs = rows + 2n * B * kvHeads * S * d * e + (kvHeads < heads ? 2n * rows : 0n);
  const square = B * heads * S * S * e;
  const mask = causal ? S * S : 0n;
  return {
    "mask": inputs + mask,
    "q @ k.T": inputs + mask + square,
    "s = ... / sqrt(d)": inputs + mask + 2n * square,
    "p = softmax(s)": inputs + mask + 2n * square,
    "o = p @ v": inputs + mask + 2n * square + rows,
  };
}

/** Peak bytes of naive(), q, k, v and o included. heads is a multiple of kvHeads. */
export function naiveBytes(B, heads, kvHeads, S, d, e = 2, causal = false) {
  return Object.values(naiveMoments(B, heads, kvHeads, S, d, e, causal)).reduce((a, b) => (a > b ? a : b));
}

/** Peak bytes of PyTorch's flash kernel on a card of `sms` multiprocessors, q, k, v and o included. d up to 256; S = 1 is for largestS alone. */
export function flashBytes(B, heads, kvHeads, S, d, e = 2, sms = 132) {
  [B, heads, kvHeads, S, d, e, sms] = shape({ B, heads, kvHeads, S, d, e, sms });
  const d8 = roundUp(d, 8n);
  const n = kvSplits(B, heads, S, d8, sms);
  const inputs = (B * heads + 2n * B * kvHeads) * S * d * e;
  const padded = d8 > d ? (B * heads + 2n * B * kvHeads) * S * d8 * e : 0n;
  const output = B * heads * S * d8 * e;
  const lse = 4n * B * heads * S;
  const rng = 24n;
  const accumulators = n > 1n ? 4n * n * B * heads * S * (1n + roundUp(d8, d8 <= 128n ? 32n : 64n)) : 0n;
  return inputs + padded + output + lse + rng + accumulators;
}

/** Into how many parts PyTorch's flash kernel cuts K and V. d up to 256, after padding to a multiple of 8. */
export function kvSplits(B, heads, S, d, sms) {
  [B, heads, S, d, sms] = shape({ B, heads, S, d, sms });
  if (d > 256n) throw wrong("d", "at most 256: the flash kernel takes no larger head dimension", d);
  return kvParts(B * heads * ceil(S, 64n), ceil(S, d <= 64n ? 256n : d <= 128n ? 128n : 64n), sms);
}

/** The rule behind kvSplits and decodeParts: `blocks` Q tiles of 64 rows, `tiles` KV tiles, two slots on each of `sms` multiprocessors. */
export function kvParts(blocks, tiles, sms) {
  [blocks, tiles, sms] = shape({ blocks, tiles, sms });
  const slots = 2n * sms;
  if (blocks >= fp32(fp32(0.8) * Number(slots))) return 1n;
  const fill = new Map();
  for (let n = 1n; n <= 128n && n <= slots && n <= tiles; n++) {
    if (n > 1n && ceil(tiles, n) === ceil(tiles, n - 1n)) continue;   // one part more changes nothing: not a choice
    const waves = fp32(fp32(blocks * n) / Number(slots));
    fill.set(n, fp32(waves / Math.ceil(waves)));
  }
  const best = Math.max(...fill.values());
  for (const [n, full] of fill) if (full >= 0.85 * best) return n;
}

/** Parts of the keys for one query a sequence, at d = 128. heads is a multiple of kvHeads. */
export function decodeParts(B, heads, kvHeads, S, sms = 132) {
  [B, heads, kvHeads, S, sms] = shape({ B, heads, kvHeads, S, sms });
  return kvParts(B * kvHeads * ceil(heads / kvHeads, 64n), ceil(S, 128n), sms);
}

/** The largest S for which size(S) is at most `limit` bytes, 0 if none; size takes and gives BigInt, and must grow with S. */
export function largestS(limit, size) {
  limit = whole("limit", limit, 0n);
  let low = 0n, high = 1n;
  while (size(high) <= limit) [low, high] = [high, 2n * high];
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    if (size(middle) <= limit) low = middle; else high = middle;
  }
  return low;
}

/** FLOPs of the two products; half of them under a causal mask. */
export function attentionFlops(B, heads, S, d, causal = false) {
  [B, heads, S, d] = shape({ B, heads, S, d }, { causal });
  return (causal ? 2n : 4n) * B * heads * S * S * d;
}

/** [read, written] bytes at device memory of one step: scores, scale, mask, softmax, output, flash or cudnn. As many KV heads as heads. */
export function dramModel(step, B, heads, S, d, e = 2) {
  [B, heads, S, d, e] = shape({ B, heads, S, d, e });
  const rows = B * heads * S * d * e, square = B * heads * S * S * e;
  const steps = {
    scores: [2n * rows, square],
    scale: [square, square],
    mask: [square + S * S, square],
    softmax: [square, square],
    output: [square + rows, rows],
    flash: [3n * rows, rows + 4n * B * heads * S],
    cudnn: [3n * rows, rows],
  };
  if (!Object.hasOwn(steps, step)) throw wrong("step", `one of ${Object.keys(steps).join(", ")}`, step);
  return steps[step];
}

/** Bytes that attention must move: q, k and v in once, o out once. As many KV heads as heads. */
export function floorBytes(B, heads, S, d, e = 2) {
  [B, heads, S, d, e] = shape({ B, heads, S, d, e });
  return 4n * B * heads * S * d * e;
}

/** What the kernels of naive() must do, {step: [FLOPs in products, bytes]}. As many KV heads as heads. */
export function stepWork(B, heads, S, d, e = 2, causal = false) {
  [B, heads, S, d, e] = shape({ B, heads, S, d, e }, { causal });
  const matmul = 2n * B * heads * S * S * d, steps = ["scores", "scale", ...(causal ? ["mask"] : []), "softmax", "output"];
  return Object.fromEntries(steps.map((step) => {
    const [read, written] = dramModel(step, B, heads, S, d, e);
    return [step, [step === "scores" || step === "output" ? matmul : 0n, read + written]];
  }));
}

/** Bytes that naive() must move at device memory. As many KV heads as heads. */
export function naiveTraffic(B, heads, S, d, e = 2, causal = false) {
  [B, heads, S, d, e] = shape({ B, heads, S, d, e }, { causal });
  const made = causal ? (3n * S * S) / 2n : 0n;
  return Object.values(stepWork(B, heads, S, d, e, causal)).reduce((sum, [, size]) => sum + size, 0n) + made;
}

/** Bytes of the KV cache that one call reads: k and v of one layer. */
export function kvBytes(B, kvHeads, S, d, e = 2) {
  [B, kvHeads, S, d, e] = shape({ B, kvHeads, S, d, e });
  return 2n * B * kvHeads * S * d * e;
}

/** Bytes at the peak of one decode call beside q, k and v, o included: repeat, grouped, flash or single; null for default. flash: d = 128. */
export function addedBytes(impl, B, heads, kvHeads, S, d, e = 2, sms = 132) {
  [B, heads, kvHeads, S, d, e, sms] = shape({ B, heads, kvHeads, S, d, e, sms });
  const row = B * heads * S * e, o = B * heads * d * e;
  if (impl === "repeat" || impl === "grouped") return 2n * row + o + (impl === "repeat" ? 2n * B * heads * S * d * e : 0n);
  if (impl === "flash" && d !== 128n) throw wrong("d", "128: the parts of decode are known there", d);
  if (impl === "flash" || impl === "single") {
    const n = impl === "flash" ? decodeParts(B, heads, kvHeads, S, sms) : 1n;
    return o + 4n * B * heads + 24n + (n > 1n ? 4n * n * B * heads * (1n + d) : 0n);
  }
  if (impl === "default") return null;
  throw wrong("impl", "one of repeat, grouped, flash, single, default", impl);
}

/** Where `flops` and `moved` bytes in `ms` milliseconds (null: not measured) stand under ceilings {copy_gbps, matmul_tflops}. */
export function underTheRoof(flops, moved, ms, ceilings) {
  [flops, moved] = shape({ flops, moved });
  if (ms !== null) positive("ms", ms);
  const { matmul_tflops, copy_gbps } = checked(ceilings);
  const byFlops = Number(flops) / matmul_tflops / 1e9, byBytes = Number(moved) / copy_gbps / 1e6;   // ms
  const intensity = quotient(flops, moved);
  return {
    traffic_bytes: moved, intensity,
    tflops: ms ? Number(flops) / ms / 1e9 : null, traffic_gbps: ms ? Number(moved) / ms / 1e6 : null,
    bound: byFlops > byBytes ? "compute" : "memory",
    roof_tflops: Math.min(matmul_tflops, (intensity * copy_gbps) / 1e3),
    floor_ms: Math.max(byFlops, byBytes),
    of_roof_pct: ms ? (100 * Math.max(byFlops, byBytes)) / ms : null,
  };
}

/** The intensity, in FLOP/B, at which ceilings {copy_gbps, matmul_tflops} meet. */
export function ridge(ceilings) {
  const { matmul_tflops, copy_gbps } = checked(ceilings);
  return (matmul_tflops * 1e3) / copy_gbps;
}

/** x rounded to fp32, as a Number. */
export function fp32(x) {
  return Math.fround(Number(x));
}

/** x rounded up to a multiple, as a BigInt. */
export function roundUp(x, multiple) {
  [x, multiple] = shape({ x, multiple });
  return ceil(x, multiple) * multiple;
}

/** a / b of two whole numbers as the nearest Number, as Python divides them; Number(a) / Number(b) would round three times. */
export function quotient(a, b) {
  a = whole("a", a, 0n);
  b = whole("b", b);
  const more = BigInt(Math.max(0, b.toString(2).length - a.toString(2).length + 56));
  const scaled = a << more, sticky = scaled % b ? 1n : 0n;
  return Number((scaled / b) | sticky) / 2 ** Number(more);
}

function ceil(a, b) {
  return (a + b - 1n) / b;
}

/** The counts as BigInt, in their order. */
function shape(counts, { causal = false } = {}) {
  const found = Object.entries(counts).map(([name, value]) => whole(name, value));
  if (typeof causal !== "boolean") throw wrong("causal", "true or false", causal);
  const { heads, kvHeads } = counts;
  if (kvHeads !== undefined && heads !== undefined && BigInt(heads) % BigInt(kvHeads)) throw wrong("heads", `a multiple of kvHeads (${kvHeads})`, heads);
  return found;
}

function whole(name, value, least = 1n) {
  if (typeof value !== "bigint" && !Number.isSafeInteger(value)) throw wrong(name, `a whole number (beyond 2^53: a BigInt)`, value);
  if (value < least) throw wrong(name, `at least ${least}`, value);
  return BigInt(value);
}

function positive(name, value) {
  if (typeof value !== "number" || !(value > 0 && value < Infinity)) throw wrong(name, "a number above 0", value);
  return value;
}

function checked({ matmul_tflops, copy_gbps }) {
  return { matmul_tflops: positive("matmul_tflops", matmul_tflops), copy_gbps: positive("copy_gbps", copy_gbps) };
}

function wrong(argument, wanted, got) {
  return Object.assign(new RangeError(`${argument} must be ${wanted}, got ${typeof got === "string" ? JSON.stringify(got) : got}.`), { argument });
}
