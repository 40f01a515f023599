// Flash attention in one dispatch: each thread keeps one query row's m, l and o on the chip, and no S × S buffer exists.
struct Shape { S: u32, scale: f32 }
@group(0) @binding(0) var<uniform> shape: Shape;
@group(0) @binding(1) var<storage, read> q: array<vec4f>;         // [H, S, d / 4]
@group(0) @binding(2) var<storage, read> k: array<vec4f>;
@group(0) @binding(3) var<storage, read> v: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> o: array<vec4f>;
@group(0) @binding(5) var<storage, read_write> lse: array<f32>;   // [H, S]

override Br: u32 = 64;                  // query rows of a workgroup, and its threads
const Bc = 16u;                         // keys of a tile
const D = 16u;                          // d / 4: d is 64
const LOWEST = -3e38;                   // WGSL has no infinity
var<workgroup> k_tile: array<vec4f, Bc * D>;
var<workgroup> v_tile: array<vec4f, Bc * D>;

@compute @workgroup_size(Br)
fn main(@builtin(workgroup_id) block: vec3u, @builtin(local_invocation_index) thread: u32) {
  let head = block.y * shape.S;
  let row = block.x * Br + thread;
  let mine = head + min(row, shape.S - 1);
  var q_row: array<vec4f, D>;
  var o_row: array<vec4f, D>;
  var s: array<f32, Bc>;
  var m = LOWEST;
  var l = 0.0;
  for (var i = 0u; i < D; i++) { q_row[i] = q[mine * D + i] * shape.scale; }

  for (var start = 0u; start < shape.S; start += Bc) {
    for (var i = thread; i < Bc * D; i += Br) {                      // all threads load the tile
      let key = head + min(start + i / D, shape.S - 1);
      k_tile[i] = k[key * D + i % D];
      v_tile[i] = v[key * D + i % D];
    }
    workgroupBarrier();                                              // the tile is whole before anyone reads it

    var m_new = m;
    for (var j = 0u; j < Bc; j++) {
      var sum = 0.0;
      for (var i = 0u; i < D; i++) { sum += dot(q_row[i], k_tile[j * D + i]); }
      s[j] = select(LOWEST, sum, start + j < shape.S);               // the last tile may reach beyond S
      m_new = max(m_new, s[j]);
    }
    let rescale = exp(m - m_new);
    l *= rescale;
    for (var i = 0u; i < D; i++) { o_row[i] *= rescale; }
    for (var j = 0u; j < Bc; j++) {
      let p = exp(s[j] - m_new);
      l += p;
      for (var i = 0u; i < D; i++) { o_row[i] += p * v_tile[j * D + i]; }
    }
    m = m_new;
    workgroupBarrier();                                              // everyone has read it before the next is loaded
  }
  if (row < shape.S) {
    for (var i = 0u; i < D; i++) { o[mine * D + i] = o_row[i] / l; }
    lse[mine] = m + log(l);
  }
}
