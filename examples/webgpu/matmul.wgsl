// c = scale · a · b for each head, through tiles in workgroup memory: 64 × 64 numbers a workgroup, 4 × 4 a thread.
struct Shape { M: u32, N: u32, K: u32, transposed: u32, scale: f32 }
@group(0) @binding(0) var<uniform> shape: Shape;
@group(0) @binding(1) var<storage, read> a: array<f32>;           // [H, M, K]
@group(0) @binding(2) var<storage, read> b: array<f32>;           // [H, K, N], or [H, N, K] where it is transposed
@group(0) @binding(3) var<storage, read_write> c: array<f32>;     // [H, M, N]

const TILE = 64u;
const DEPTH = 16u;
var<workgroup> a_tile: array<f32, DEPTH * TILE>;
var<workgroup> b_tile: array<vec4f, DEPTH * TILE / 4>;

fn read_b(head: u32, k: u32, n: u32) -> f32 {
  let inside = k < shape.K && n < shape.N;
  let at = select(k * shape.N + n, n * shape.K + k, shape.transposed == 1);
  return select(0.0, b[head * shape.K * shape.N + at], inside);
}

@compute @workgroup_size(16, 16)
fn main(@builtin(workgroup_id) block: vec3u, @builtin(local_invocation_id) me: vec3u, @builtin(local_invocation_index) thread: u32) {
  let row = block.y * TILE;
  let column = block.x * TILE;
  var sum: array<vec4f, 4>;
  for (var start = 0u; start < shape.K; start += DEPTH) {
    for (var i = thread; i < DEPTH * TILE; i += 256) {
      let m = row + i / DEPTH;
      let k = start + i % DEPTH;
      a_tile[i % DEPTH * TILE + i / DEPTH] = select(0.0, a[(block.z * shape.M + m) * shape.K + k], m < shape.M && k < shape.K);
    }
    let k = start + select(thread / 16, thread % 16, shape.transposed == 1);   // neighbours read neighbours
    let n = select(thread % 16, thread / 16, shape.transposed == 1) * 4;
    let quad = vec4f(read_b(block.z, k, column + n), read_b(block.z, k, column + n + 1), read_b(block.z, k, column + n + 2), read_b(block.z, k, column + n + 3));
    b_tile[(k - start) * TILE / 4 + n / 4] = quad;
    workgroupBarrier();
    for (var k = 0u; k < DEPTH; k++) {
      let right = b_tile[k * TILE / 4 + me.x];
      for (var i = 0u; i < 4; i++) { sum[i] += a_tile[k * TILE + me.y * 4 + i] * right; }
    }
    workgroupBarrier();
  }
  for (var i = 0u; i < 4; i++) {
    for (var j = 0u; j < 4; j++) {
      let m = row + me.y * 4 + i;
      let n = column + me.x * 4 + j;
      if (m < shape.M && n < shape.N) { c[(block.z * shape.M + m) * shape.N + n] = shape.scale * sum[i][j]; }
    }
  }
}
