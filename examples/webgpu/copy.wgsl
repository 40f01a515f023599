// y = x, to learn how many bytes a second the device's memory moves.
@group(0) @binding(0) var<storage, read> x: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4f>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) me: vec3u, @builtin(num_workgroups) groups: vec3u) {
  for (var i = me.x; i < arrayLength(&x); i += groups.x * 256) { y[i] = x[i]; }
}
