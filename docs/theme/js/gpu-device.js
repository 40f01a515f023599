// One GPU of the page: its buffers counted, its errors named, its kernels timed. Knows nothing of attention or of the page.

/** Why something did not run. status: none, adapter, refused, oom, cap, slow, hidden, stopped, lost, wrong, code. */
export class Failure extends Error {
  constructor(status, detail = "") { super(detail || status); this.status = status; this.detail = detail; }
}

let open = null;   // one device a page

export class Device {
  /** Ask for the adapter and a device with all that it allows. cap: bytes that may be held at once. */
  static async open({ cap, seconds }) {
    if (!navigator.gpu) throw new Failure("none");
    open?.close("stopped");
    let adapter;
    try { adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" }); } catch (error) { throw new Failure("adapter", error.message); }
    if (!adapter) throw new Failure("adapter");
    const wanted = ["maxBufferSize", "maxStorageBufferBindingSize"];
    let device;
    try {
      device = await adapter.requestDevice({
        requiredFeatures: ["timestamp-query", "subgroups"].filter((name) => adapter.features.has(name)),
        requiredLimits: Object.fromEntries(wanted.map((name) => [name, adapter.limits[name]])),
      });
    } catch (error) { throw new Failure("adapter", error.message); }
    return (open = new Device(adapter, device, cap, seconds));
  }

  constructor(adapter, device, cap, seconds) {
    Object.assign(this, { adapter, device, cap, seconds, held: 0, most: 0, buffers: new Set(), pipelines: new Map() });
    this.began = performance.now();
    this.clocked = !device.features.has("timestamp-query");   // no timestamps: the clock
    this.gone = new Promise((_, reject) => { this.end = reject; });
    this.gone.catch(() => {});
    device.lost.then(({ reason, message }) => this.end(new Failure("lost", [reason, message].filter(Boolean).join(": "))));
    device.addEventListener("uncapturederror", (event) => { event.preventDefault(); this.end(new Failure("refused", event.error.message)); });
    this.hide = () => { if (document.hidden) this.close("hidden"); };
    document.addEventListener("visibilitychange", this.hide);
    this.late = setTimeout(() => this.close("slow"), 1000 * (seconds + 15));   // a kernel that never ends
  }

  get left() { return this.seconds - (performance.now() - this.began) / 1000; }

  get limit() { return Math.min(this.device.limits.maxBufferSize, this.device.limits.maxStorageBufferBindingSize); }

  /** What the browser tells of the adapter; it may tell nothing. */
  get info() {
    const { vendor = "", architecture = "", device = "", description = "", subgroupMinSize = null, subgroupMaxSize = null, isFallbackAdapter = false } = this.adapter.info ?? {};
    return { vendor, architecture, device, description, subgroups: subgroupMinSize === null ? null : [subgroupMinSize, subgroupMaxSize], fallback: Boolean(isFallbackAdapter || this.adapter.isFallbackAdapter) };
  }

  /** What the promise gives, or the device's end if that comes first. */
  guard(promise) { return Promise.race([promise, this.gone]); }

  /** `make()` with its errors caught: a validation error is a refusal. */
  async scoped(make) {
    this.device.pushErrorScope("out-of-memory");
    this.device.pushErrorScope("internal");
    this.device.pushErrorScope("validation");
    let made, thrown;
    try { made = await make(); } catch (error) { thrown = error; }
    const errors = [];
    for (const status of ["refused", "refused", "oom"]) {
      const error = await this.guard(this.device.popErrorScope());
      if (error) errors.unshift(new Failure(status, error.message));
    }
    if (errors.length) throw errors[0];
    if (thrown) throw new Failure("refused", thrown.message);
    return made;
  }

  /** A buffer of `size` bytes. Nothing is asked of the device for one that would pass the announced memory, unless the device must refuse it by its limits. */
  async buffer(label, size, usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST) {
    if (this.held + size > this.cap && size <= this.device.limits.maxBufferSize) throw new Failure("cap", String(this.held + size));
    const made = await this.scoped(() => this.device.createBuffer({ label, size, usage }));
    this.buffers.add(made);
    this.held += made.size;
    this.most = Math.max(this.most, this.held);
    return made;
  }

  free(...buffers) {
    for (const buffer of buffers) {
      if (!this.buffers.delete(buffer)) continue;
      this.held -= buffer.size;
      buffer.destroy();
    }
  }

  async uniform(numbers) {
    const made = await this.buffer("shape", Math.max(16, numbers.byteLength), GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST);
    this.device.queue.writeBuffer(made, 0, numbers);
    return made;
  }

  /** The pipeline of a kernel's text. What the compiler says about it is a Failure "code" whose detail is "line: message". */
  async pipeline(name, code, constants = {}) {
    const key = JSON.stringify([code, constants]);
    if (!this.pipelines.has(key)) {
      this.device.pushErrorScope("validation");
      const module = this.device.createShaderModule({ label: name, code });
      const { messages } = await this.guard(module.getCompilationInfo());
      await this.guard(this.device.popErrorScope());
      const wrong = messages.find(({ type }) => type === "error");
      if (wrong) throw Object.assign(new Failure("code", wrong.message), { line: wrong.lineNum });
      try {
        this.pipelines.set(key, await this.guard(this.device.createComputePipelineAsync({ label: name, layout: "auto", compute: { module, constants } })));
      } catch (error) { throw error instanceof Failure ? error : new Failure("code", error.message); }
    }
    return this.pipelines.get(key);
  }

  /** {pipeline, group, grid}: a kernel with its buffers, ready to be dispatched. */
  async job(name, code, buffers, grid, constants) {
    const pipeline = await this.pipeline(name, code, constants);
    const group = await this.scoped(() => this.device.createBindGroup({ label: name, layout: pipeline.getBindGroupLayout(0), entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer } })) }));
    return { pipeline, group, grid };
  }

  /** Run the jobs `repeats` times, one after another; returns milliseconds of all, by timestamps where there are any. */
  async run(jobs, repeats = 1) {
    const encoder = this.device.createCommandEncoder();
    const stamps = this.clocked ? null : await this.#stamps();
    const pass = encoder.beginComputePass(stamps ? { timestampWrites: { querySet: stamps.set, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 } } : {});
    for (let n = 0; n < repeats; n++) {
      for (const { pipeline, group, grid } of jobs) {
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, group);
        pass.dispatchWorkgroups(...grid);
      }
    }
    pass.end();
    if (stamps) {
      encoder.resolveQuerySet(stamps.set, 0, 2, stamps.resolved, 0);
      encoder.copyBufferToBuffer(stamps.resolved, 0, stamps.read, 0, 16);
    }
    const begun = performance.now();
    await this.scoped(() => this.device.queue.submit([encoder.finish()]));
    await this.guard(this.device.queue.onSubmittedWorkDone());
    const clock = performance.now() - begun;
    if (!stamps) return clock;
    await this.guard(stamps.read.mapAsync(GPUMapMode.READ));
    const [from, to] = new BigUint64Array(stamps.read.getMappedRange().slice(0));
    stamps.read.unmap();
    const ms = Number(to - from) / 1e6;
    if (ms > 0 && ms < clock + 1) return ms;
    this.clocked = clock > 1;   // timestamps that say nothing, or more than there was: the clock from now on
    return clock;
  }

  async #stamps() {
    this.stamps ??= {
      set: this.device.createQuerySet({ type: "timestamp", count: 2 }),
      resolved: await this.buffer("timestamps", 256, GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC),
      read: await this.buffer("timestamps", 16, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST),
    };
    return this.stamps;
  }

  /** {ms, min_ms, max_ms, samples, repeats, timer}: the median of samples of at least `least` ms each, because a browser's clocks are coarse. */
  async time(jobs, { least = 10, most = 5 } = {}) {
    await this.run(jobs);   // the first run also loads the kernels
    let found = [], repeats = 1, wanted = most;
    for (let tries = 0; found.length < wanted;) {
      const total = await this.run(jobs, repeats);
      if (total < least && tries++ < 8) {   // too short, perhaps only now that the GPU has warmed up: more of them, from the start
        repeats = Math.min(4096, Math.ceil(repeats * Math.min(16, (1.3 * least) / Math.max(total, 0.05))));
        found = [];
        continue;
      }
      found.push(total);
      wanted = Math.min(wanted, total > 400 ? 2 : total > 100 ? 3 : most);
    }
    const each = found.map((ms) => ms / repeats).sort((a, b) => a - b);
    const middle = each.length / 2;
    return {
      ms: each.length % 2 ? each[Math.floor(middle)] : (each[middle - 1] + each[middle]) / 2, min_ms: each[0], max_ms: each.at(-1),
      samples: each.length, repeats, timer: this.clocked ? "clock" : "timestamps",
    };
  }

  /** Parts of buffers as Float32Arrays: [[buffer, first, count], …] in numbers, not bytes. */
  async read(parts) {
    const size = parts.reduce((sum, [, , count]) => sum + 4 * count, 0);
    const read = await this.buffer("read", size, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST);
    const encoder = this.device.createCommandEncoder();
    let at = 0;
    for (const [buffer, first, count] of parts) { encoder.copyBufferToBuffer(buffer, 4 * first, read, at, 4 * count); at += 4 * count; }
    await this.scoped(() => this.device.queue.submit([encoder.finish()]));
    await this.guard(read.mapAsync(GPUMapMode.READ));
    const all = new Float32Array(read.getMappedRange().slice(0));
    this.free(read);
    at = 0;
    return parts.map(([, , count]) => all.subarray(at, (at += count)));
  }

  /** Give everything back. What still waits for the device fails with `status`. */
  close(status = "stopped") {
    clearTimeout(this.late);
    document.removeEventListener("visibilitychange", this.hide);
    this.end(new Failure(status));
    this.free(...this.buffers);
    this.stamps?.set.destroy();
    this.device.destroy();
    if (open === this) open = null;
  }
}
