"""The rungs without a GPU: interpreted on a CPU, or compiled for a card that is not there.

interpreted(path) is a rung whose kernels run in Triton's interpreter; compiled(call, 90) is what the compiler makes of
the kernels that call() would launch on a card of that compute capability. No rung needs this to run on a GPU.
"""

import contextlib
import functools
import importlib.util
import pathlib
import re
import subprocess
import tempfile
from unittest import mock

import triton
import triton.experimental.gluon.language  # noqa: F401  before the interpreter replaces what it copies
from triton.backends.compiler import GPUTarget
from triton.runtime import driver, interpreter, jit

# Columns of a row: how often a mnemonic stands in the machine code. HMMA is mma.sync, HGMMA wgmma, UTCHMMA tcgen05.
COUNTED = {
    "mma_sync": r"\bHMMA\.", "wgmma": r"\bHGMMA\.", "tcgen05": r"\bUTCHMMA\b", "ldmatrix": r"\bLDSM\.",
    "tma_loads": r"\bUTMALDG\.", "cp_async": r"\bLDGSTS\.", "exp2": r"\bMUFU\.EX2\b", "shuffles": r"\bSHFL\.",
    "barriers": r"\bBAR\.", "local": r"\b(?:LDL|STL)\b",
}


def interpreted(path):
    """The rung in a file, with its kernels interpreted; the module that is imported as usual is left as it is."""
    spec = importlib.util.spec_from_file_location(f"interpreted_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    with mock.patch.object(triton, "jit", InterpretedFunction):
        spec.loader.exec_module(module)
    return module


class InterpretedFunction(interpreter.InterpretedFunction):
    """Triton's, with bounds of loops that NumPy 2.4 still converts (triton #9171), in a process that also compiles."""

    def run(self, *args, grid, warmup, **kwargs):
        patch = interpreter._patch_lang_tensor

        def with_bounds(tensor, scope):
            patch(tensor, scope)
            scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

        def in_place(function, *args, **kwargs):           # tl.max and its like are functions of Triton's own library
            return InterpretedFunction(function.fn)(*args, **kwargs)

        with (mock.patch.object(interpreter, "_patch_lang_tensor", with_bounds),
              mock.patch.object(jit.JITFunction, "__call__", in_place)):
            return super().run(*args, grid=grid, warmup=warmup, **kwargs)

    def __call__(self, *args, **kwargs):
        scope = interpreter._patch_lang(self.fn)           # Triton's own __call__ leaves the language patched
        try:
            return self.rewrite()(*args, **kwargs)
        finally:
            scope.restore()


def compiled(call, capability):
    """[a dict of columns] for the kernels that call() launches, in order: compiled for 80, 90 or 100, and not run."""
    return [report(kernel) for kernel in launches(call, capability)]


def launches(call, capability):
    """The kernels that call() launches, as Triton compiles them for a card of that compute capability; none is run."""
    kernels, run = [], jit.JITFunction.run

    def compile_only(self, *args, grid, warmup, **kwargs):
        kernels.append(run(self, *args, grid=grid, warmup=True, **kwargs))
        return kernels[-1]

    with absent(capability), mock.patch.object(jit.JITFunction, "run", compile_only):
        call()
    return kernels


@contextlib.contextmanager
def absent(capability):
    """Triton's driver for a card that is not there: enough of it to compile."""
    card = mock.Mock(spec=["get_current_target", "get_current_device", "get_current_stream"])
    card.get_current_target.return_value = GPUTarget("cuda", capability, 32)
    card.get_current_device.return_value = -capability     # its kernels are kept apart from those of the real card
    card.get_current_stream.return_value = 0
    with mock.patch.object(driver, "_active", card):
        yield


@functools.cache                                           # Triton hands out the same kernel for the same arguments
def report(kernel):
    """Columns of one compiled kernel: registers, spills, shared memory, instructions as COUNTED names them, warps."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "kernel.cubin"
        cubin.write_bytes(kernel.asm["cubin"])
        usage, code = (subprocess.run([triton.knobs.nvidia.cuobjdump.path, flag, cubin], capture_output=True, text=True,
                                      check=True).stdout for flag in ("--dump-resource-usage", "--dump-sass"))
    # setmaxnreg moves registers between warps, so that one number tells the registers at the kernel's entry only
    found = dict(re.findall(r"\b(REG|STACK|LOCAL):(\d+)", usage))
    ptx = kernel.asm["ptx"]
    return {
        "name": kernel.name, "registers": int(found["REG"]), "stack_bytes": int(found["STACK"]),
        "shared_bytes": kernel.metadata.shared, "warps": warps(ptx),
        "instructions": len(re.findall(r"^\s+/\*[0-9a-f]{4,}\*/", code, re.MULTILINE)),
        **{name: len(re.findall(pattern, code)) for name, pattern in COUNTED.items()},
        "setmaxnreg": ", ".join(re.findall(r"setmaxnreg\.\w+\.sync\.aligned\.u32\s+(\d+)", ptx)) or None,
    }


def warps(ptx):
    """Warps of a block, those of partitions included."""
    return int(re.search(r"\.(?:req|max)ntid\s+(\d+)", ptx)[1]) // 32
