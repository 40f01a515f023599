"""The captured outputs of examples that need no GPU: which command makes which file. `make outputs` writes them again."""
import os
import pathlib
import subprocess
import sys

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
COMMANDS = {
    "online_softmax.txt": ["online_softmax.py"],
    "tiled_attention.txt": ["tiled_attention.py"],
    "io_counter.txt": ["io_counter.py"],
    "split_kv.txt": ["split_kv.py"],
    "rescale_rules.txt": ["rescale_rules.py"],
    "exp2_polynomial.txt": ["exp2_polynomial.py"],
    "flash_vs_naive_memory-predict.txt": ["flash_vs_naive_memory.py", "--predict", "--gib", "24"],
    "flash_backward-predict.txt": ["flash_backward.py", "--predict", "--gib", "24"],
    "ring_attention-predict.txt": ["ring_attention.py", "--predict"],
    **{f"{lab}-predict.txt": [f"{lab}.py", "--predict"] for lab in ("whole_model", "batch_invariance", "mask_savings")},
    **{f"pitfalls-{path.stem}.txt": [f"pitfalls/{path.name}"] for path in sorted((EXAMPLES / "pitfalls").glob("*.py"))},
}


def capture(name):
    """What the command behind examples/outputs/<name> prints on this machine."""
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONUTF8": "1"}
    run = subprocess.run([sys.executable, *COMMANDS[name]], cwd=EXAMPLES, env=env, capture_output=True, text=True, check=True, timeout=120)
    return run.stdout


if __name__ == "__main__":
    for name in COMMANDS:
        print(f"examples/outputs/{name}", flush=True)
        (EXAMPLES / "outputs" / name).write_text(capture(name), "utf-8")
