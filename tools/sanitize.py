"""compute-sanitizer over every rung of examples/kernels with small shapes, and over a planted error of each kind. On a Hopper GPU.

    python tools/sanitize.py            memcheck and racecheck, four processes at once; a line each, exit status 1 unless as it must be
"""
import importlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
RUNGS = ("unfused", "fused", "diagonal", "descriptors", "partitions", "pipelined", "persistent")
RACE = """extern "C" __global__ void turned(float* x) {
    __shared__ float s[256];
    s[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = s[255 - threadIdx.x];
}"""


def run(what):
    """In the child: the rungs, or what is wrong on purpose."""
    import torch

    sys.path.insert(0, str(EXAMPLES))

    def drawn(heads, S):
        return torch.randn(1, heads, S, 128, device="cuda", dtype=torch.bfloat16)

    if what == "memcheck planted":                         # o is stored beyond its last row
        with tempfile.TemporaryDirectory() as folder:
            source = (EXAMPLES / "kernels/fused.py").read_text("utf-8")
            wrong = source.replace("[:, None], mask=rows[:, None] < S_q)", "[:, None])")
            assert wrong != source
            (pathlib.Path(folder) / "planted.py").write_text(wrong, "utf-8")
            sys.path.insert(0, folder)
            importlib.import_module("planted").attention(drawn(2, 130), drawn(1, 130), drawn(1, 130))
    elif what == "racecheck planted":
        torch.cuda._compile_kernel(RACE, "turned")((1, 1, 1), (256, 1, 1), (torch.zeros(256, device="cuda"),))
    else:
        for name in RUNGS:
            for S_q, S_kv, causal in ((200, 333, True), (333, 200, False)):
                importlib.import_module(f"kernels.{name}").attention(drawn(2, S_q), drawn(1, S_kv), drawn(1, S_kv), causal)
        importlib.import_module("kernels.decode").attention(drawn(4, 1), drawn(2, 1000), drawn(2, 1000))
    torch.cuda.synchronize()


def main():
    if len(sys.argv) > 1:
        return run(sys.argv[1])
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if not sanitizer:
        print("compute-sanitizer is missing. It comes with the CUDA toolkit.", file=sys.stderr)
        return 2
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}   # so that every tensor has an end of its own
    started = {f"{tool} {which}": subprocess.Popen([sanitizer, "--tool", tool, sys.executable, __file__, f"{tool} {which}"], env=environment, text=True,
                                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for which in ("planted", "rungs") for tool in ("memcheck", "racecheck")}
    bad = False
    for what, process in started.items():
        said = process.communicate()[0]
        found = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: .*", said)
        print(f"{what}: {'; '.join(found) or said.strip().splitlines()[-1:]}", flush=True)
        clean = bool(found) and re.search(r"SUMMARY: 0 ", found[-1]) is not None
        bad |= clean != what.endswith("rungs") or not found
        if what.endswith("rungs") and not clean:
            print("\n".join(said.splitlines()[:40]))
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
