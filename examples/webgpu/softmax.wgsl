// p = softmax(s), one row of S scores a workgroup.
@group(0) @binding(0) var<uniform> S: u32;
@group(0) @binding(1) var<storage, read> s: array<f32>;           // [H, S, S]
@group(0) @binding(2) var<storage, read_write> p: array<f32>;     // [H, S, S]

const THREADS = 256u;
var<workgroup> part: array<f32, THREADS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) row: vec3u, @builtin(local_invocation_index) thread: u32) {
  let first = (row.y * S + row.x) * S;
  var m = -3e38;
  for (var j = thread; j < S; j += THREADS) { m = max(m, s[first + j]); }
  part[thread] = m;
  workgroupBarrier();
  for (var half = THREADS / 2; half > 0; half /= 2) {
    if (thread < half) { part[thread] = max(part[thread], part[thread + half]); }
    workgroupBarrier();
  }
  m = part[0];
  workgroupBarrier();

  var l = 0.0;
  for (var j = thread; j < S; j += THREADS) {
    let weight = exp(s[first + j] - m);
    p[first + j] = weight;
    l += weight;
  }
  part[thread] = l;
  workgroupBarrier();
  for (var half = THREADS / 2; half > 0; half /= 2) {
    if (thread < half) { part[thread] += part[thread + half]; }
    workgroupBarrier();
  }
  l = part[0];
  for (var j = thread; j < S; j += THREADS) { p[first + j] /= l; }
}
