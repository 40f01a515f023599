"""Your kernel against the ladder: is it attention, how fast is it, and which instructions does it use?

    python beat.py my_kernel.py                 an NVIDIA GPU of compute capability 8.0 or newer; for the rungs Triton 3.6.0 and kernels/
    python beat.py my_kernel.py --results DIR   keep the result as DIR/<gpu>/beat.json, in the form that the project collects

my_kernel.py defines attention(q, k, v, causal) -> o, or (o, lse). q, k, v: [1, 28, S, 128] bf16; Triton, CUDA or PyTorch.

The file is loaded in a process of its own, which never sees the clock. This process draws the inputs anew for every sample,
into memory that both share, asks for CALLS outputs, and stops its clock when it holds rows of each output that it chose
after the answer. Then it draws the inputs again, from a seed that only it knows, and compares one whole output with fp64:
by the largest error, so that no mean hides a wrong row. What is faster than the matmul of the same run allows is refused.
So a patched timer, a cached answer, an output that is computed later and changed inputs are of no use. The other programs
go the same way and pay the same for it: a message there and back, shared by CALLS calls.
"""

import argparse
import functools
import importlib
import importlib.util
import math
import pathlib
import sys
import time

try:
    from kit.card import ended, gpu_problem, stop
    from kit.clock import quantile
    from kit.kernels import which_kernel
    from kit.table import report, yes_no
except ModuleNotFoundError:
    sys.exit(print("This is the source, which needs the folder kit beside it. The single file is examples/beat.py of the lesson's site.", file=sys.stderr) or 2)

SAMPLES, CALLS = 5, 16
CASES = ((4096, False), (4096, True), (8192, True))
HEADS, D = 28, 128
ABOVE = 1.05                                               # times the matmul's rate that is still believed: rates swing with the power limit
RIVALS = ("flash", "cudnn", "fused", "descriptors", "persistent")


class Refused(Exception):
    """Why a kernel has no place in the table."""


# In the process of the kernel.

def rival(name):
    """attention(q, k, v, causal) of a rung, or of one of PyTorch's backends."""
    if name not in ("flash", "cudnn"):
        return importlib.import_module(f"kernels.{name}").attention
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attention(q, k, v, causal):
        with sdpa_kernel([getattr(SDPBackend, f"{name.upper()}_ATTENTION")]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return attention


def loaded(path):
    """attention() of a file."""
    spec = importlib.util.spec_from_file_location("my_kernel", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.attention


def answer(attention, sets, outputs, causal):
    """Put the output of each (q, k, v) into its place, and wait until it is there."""
    import torch

    for (q, k, v), o in zip(sets, outputs):
        found = attention(q, k, v, causal)
        o.copy_(found[0] if isinstance(found, tuple) else found)
    if o.is_cuda:
        torch.cuda.synchronize()


def serve(pipe, source):
    """Answer until nobody asks: ("use", (sets, outputs)), ("run", causal) when the outputs are there, ("code", causal) with instructions()."""
    try:
        attention = rival(source) if source in RIVALS else loaded(source)
        while True:
            what, given = pipe.recv()
            if what == "use":
                sets, outputs = given
            pipe.send(answer(attention, sets, outputs, given) if what == "run" else instructions(attention, sets[0], given) if what == "code" else None)
    except EOFError:
        pass
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")


def instructions(attention, case, causal):
    """(the kernels of one call, what their machine code holds). Of kernels that are not Triton's only the names are known."""
    import torch

    machine = importlib.import_module("kernels.machine")
    capability = torch.cuda.get_device_capability() if case[0].is_cuda else (9, 0)
    made = machine.compiled(lambda: attention(*case, causal), 10 * capability[0] + capability[1])
    if not made:
        return " + ".join(dict.fromkeys(which_kernel(lambda: attention(*case, causal)))) or None, None
    counts = {name: sum(kernel[name] for kernel in made) for name in ("wgmma", "mma_sync", "tcgen05", "tma_loads", "local")}
    return " + ".join(kernel["name"] for kernel in made), ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "no matrix instruction"


# In the process of the clock.

class Other:
    """A process that serves one kernel. A message that is no answer is its error."""

    def __init__(self, source):
        from torch import multiprocessing

        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, source), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, request):
        try:
            self.pipe.send(request)
            said = self.pipe.recv()
        except (EOFError, OSError):
            raise Refused("its process ended") from None
        if isinstance(said, str):
            raise Refused(said)
        return said

    def close(self):
        self.process.kill()
        self.process.join()


def draw(seed, sets):
    """Fill every q, k, v with normal numbers that follow from the seed; the scores spread, so that no mean of v is near o."""
    import torch

    generator = torch.Generator(sets[0][0].device).manual_seed(seed)
    for case in sets:
        for x in case:
            x.normal_(generator=generator)
        case[0].mul_(2)


def exact(q, k, v, causal, rows):
    """o in fp64 of some rows of one head, [len(rows), d]; and as the textbook computes it in the precision of q."""
    import torch

    hidden = torch.arange(k.shape[0], device=q.device)[None, :] > rows[:, None] if causal else None

    def textbook(q, k, v):
        s = q @ k.T / math.sqrt(q.shape[1])
        return torch.softmax(s if hidden is None else s.masked_fill(hidden, -math.inf), -1) @ v
    return textbook(q[rows].double(), k.double(), v.double()), textbook(q[rows], k, v)


def compare(o, fresh, causal):
    """Refused unless every row of o is attention, within twice the textbook's largest error on this head."""
    import torch

    q, k, v = fresh
    for head in range(q.shape[1]):
        rows = torch.arange(q.shape[2], device=q.device)
        true, rough = exact(q[0, head], k[0, head], v[0, head], causal, rows)
        off, allowed = ((x.double() - true).abs().max().item() for x in (o[0, head], rough))
        if not off <= 2 * allowed + 1e-5:
            raise Refused(f"wrong: head {head} is off by {off:.1e}, twice the textbook's error is {2 * allowed:.1e}")


def sample(ask, sets, outputs, causal, chance, clock):
    """Milliseconds a call: inputs drawn anew, outputs that this process has seen, one of them compared in full."""
    import torch

    device, seed = sets[0][0].device, chance.getrandbits(60)
    draw(seed, sets)
    for o in outputs:
        o.fill_(math.nan)
    wait(device)
    begin = clock()
    ask(("run", causal))
    rows = torch.tensor([chance.randrange(outputs[0].shape[2]) for _ in range(8)], device=device)
    seen = torch.stack([o[0, :, rows] for o in outputs])
    wait(device)
    ms = 1e3 * (clock() - begin) / len(outputs)
    if seen.isnan().any():
        raise Refused("wrong: rows of its outputs were not there, or not a number, when it said that they are")
    fresh = [tuple(torch.empty_like(x) for x in case) for case in sets]
    draw(seed, fresh)
    if any(not torch.equal(x, y) for case, again in zip(sets, fresh) for x, y in zip(case, again)):
        raise Refused("it changed its inputs")
    at = chance.randrange(len(outputs))
    compare(outputs[at], fresh[at], causal)
    if not torch.equal(seen[at], outputs[at][0, :, rows]):
        raise Refused("its output changed after it was delivered")
    return ms


def wait(device):
    import torch

    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def least_ms(heads, S, d, causal, tflops):
    """The time of the multiplications alone at the rate of the matmul."""
    return (2 if causal else 4) * heads * S * S * d / tflops / 1e9


def timed(ask, sets, outputs, causal, tflops, chance, clock=time.perf_counter, samples=SAMPLES):
    """Milliseconds a call: the median. Refused when wrong, or faster than the card can multiply."""
    q = sets[0][0]
    sample(ask, sets, outputs, causal, chance, clock)      # compiles, warms up
    ms = quantile([sample(ask, sets, outputs, causal, chance, clock) for _ in range(samples)], 0.5)
    least = least_ms(q.shape[1], q.shape[2], q.shape[3], causal, ABOVE * tflops)
    if not ms >= least:
        raise Refused(f"{ms:.4f} ms is faster than the roofline allows: the multiplications alone take {least:.4f} ms at {ABOVE} times the matmul's rate")
    return ms


def matmul_tflops():
    """The rate of a matmul of 8192 x 8192 bf16 matrices: the best of a few, which is the highest roof."""
    import torch

    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    found = []
    for _ in range(6):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(10):
            a @ b
        torch.cuda.synchronize()
        found.append(10 * 2 * 8192**3 / (time.perf_counter() - begin) / 1e12)
    return max(found)


def contest(path, chance, cases=CASES):
    """A row a program and case, the reader's last. Raises Refused when the reader's kernel is."""
    import torch

    yours, roof = str(path), matmul_tflops()
    others = {source: Other(source) for source in (*RIVALS, yours)}
    try:
        for S, causal in cases:
            sets = [tuple(torch.empty(1, HEADS, S, D, device="cuda", dtype=torch.bfloat16) for _ in range(3)) for _ in range(CALLS)]
            outputs, times = [torch.empty_like(case[0]) for case in sets], {}
            for source, other in others.items():
                try:
                    other.ask(("use", (sets, outputs)))
                    times[source] = timed(other.ask, sets, outputs, causal, roof, chance)
                    kernel, code = other.ask(("code", causal))
                except Refused:
                    if source == yours:
                        raise
                    continue                               # a rung that this card or this Triton has not
                yield {"part": "beat", "impl": "yours" if source == yours else source, "B": 1, "heads": HEADS, "kv_heads": HEADS, "d": D, "dtype": "bf16",
                       "S": S, "causal": causal, "ms": times[source], "samples": SAMPLES, "tflops": least_ms(HEADS, S, D, causal, 1) / times[source],
                       "matmul_tflops": roof, "over_flash": times["flash"] / times[source] if "flash" in times else None,
                       "code": code, "kernel": kernel or "unknown", "status": "ok"}
    finally:
        for other in others.values():
            other.close()


def values(rows):
    """How many programs and cases are measured, as a flat dict."""
    return {"rows": len(rows)}


def header(part):
    return "     S  causal  program          ms  TFLOP/s  / flash  instructions"


def line(row):
    """A row as text."""
    over = "-" if row["over_flash"] is None else f"{row['over_flash']:.2f}"
    return f"{row['S']:6}  {yes_no(row['causal']):>6}  {row['impl']:11} {row['ms']:8.4f} {row['tflops']:8.1f} {over:>8}  {row['code'] or row['kernel'][:60]}"


def footer(found):
    return ""


def kept(folder, rows, started, begin):
    """Write the rows as run.py writes a lab's."""
    run = importlib.import_module("run")
    card = run.machine()
    target = folder / run.slug(card["gpu"]) / "beat.json"
    run.write(target, {"schema": 2, "lab": "beat", "source": run.source(pathlib.Path(__file__)),
                       "run": {"started": started, "seconds": round(time.monotonic() - begin, 1), "command": "python beat.py my_kernel.py", "seed": None, "status": "ok", "error": None},
                       "machine": card, "software": run.software(), "rows": rows})
    print(f"-> {target}")


def main(argv=None):
    """Command line. Exit status 1 when the kernel is refused, 2 and one line on stderr where nothing can run."""
    import random

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernel", type=pathlib.Path, help="a file that defines attention(q, k, v, causal)")
    parser.add_argument("--results", type=pathlib.Path, metavar="DIR", help="keep the result as DIR/<gpu>/beat.json")
    options = parser.parse_args(argv)
    if not options.kernel.is_file():
        return stop(f"There is no file {options.kernel}.")
    if problem := gpu_problem():
        return stop(problem)
    rows, begin, started = [], time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    def shown():
        for row in contest(options.kernel, random.SystemRandom()):
            rows.append(row)
            yield row
    try:
        report(shown(), header, line)
    except Refused as why:
        return stop(f"Refused: {why}", 1)
    if options.results:
        kept(options.results, rows, started, begin)
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
