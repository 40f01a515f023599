"""What the page about the reader's own GPU knows before anything runs: the announcement, the H200's points, the kernels' identity."""
import hashlib
import html
import json
import re

import jsonschema

from .errors import PageError
from .results import LARGEST, strict_json

CARD = "nvidia-h200"   # whose points stand beside the reader's
KERNELS = ("matmul", "softmax", "flash", "copy")
HEADS, SECONDS, MIB, SHORT = 4, 30, 768, (10, 256)
MEMORY, TIME = "flash_vs_naive_memory", "attention_roofline"
SIDES = ("naive", "flash")


def identity(examples):
    """Names the kernels that measured: the sha256 of their texts, one behind the other."""
    return hashlib.sha256("".join(examples[f"webgpu/{name}.wgsl"] for name in KERNELS).encode("utf-8")).hexdigest()


def points(results, card=CARD):
    """The card's measured points as the page's charts want them: [x, y] of naive and flash, without a mask.

    memory  bytes held in multiples of the bytes of q, over S / d
    time    ms of one head, over S
    points  TFLOP/s over FLOPs a byte; roof: [GB/s of the copy, TFLOP/s of the matrix product]
    """
    try:
        memory, clock = results[card, MEMORY], results[card, TIME]
    except KeyError as missing:
        raise PageError(f"the page's charts need the result {missing}.") from None
    grid = [row for row in memory["rows"] if row["part"] == "grid" and row["status"] == "ok" and not row["causal"] and row["kv_heads"] == row["heads"]]
    timed = [row for row in clock["rows"] if row["part"] in ("short", "grid") and row["status"] == "ok" and not row["causal"] and row["impl"] in SIDES]
    size = {"bf16": 2, "fp16": 2, "fp32": 4}
    return {
        "memory": {side: [[row["S"] / row["d"], row[f"{side}_mib"] * 2**20 / (size[row["dtype"]] * row["heads"] * row["S"] * row["d"])] for row in grid] for side in SIDES},
        "time": {side: [[row["S"], row["ms"] / row["heads"]] for row in timed if row["impl"] == side] for side in SIDES},
        "points": {side: [[row["intensity"], row["tflops"]] for row in timed if row["impl"] == side] for side in SIDES},
        "roof": [clock["values"]["copy_gbps"], clock["values"]["matmul_tflops"]],
    }


def contributed(folder):
    """{gpu: result} of examples/webgpu/results/<gpu>.json, each a browser's. Raises PageError naming the file and the field that is not as schema.json says."""
    validator, found = jsonschema.Draft202012Validator(json.loads((folder / "schema.json").read_text("utf-8"))), {}
    for path in sorted(folder.glob("*.json")):
        where = f"examples/webgpu/results/{path.name}"
        if path.name == "schema.json":
            continue
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", path.stem) or not path.is_file() or path.stat().st_size > LARGEST:
            raise PageError(f"{where}: the page Your GPU saves a plain file under the adapter's name: lower-case letters, digits, hyphens.")
        try:
            result = strict_json(path.read_text("utf-8"))
        except (ValueError, RecursionError, OSError) as error:
            raise PageError(f"{where}: not strict JSON: {str(error)[:300]}.") from None
        if error := next(iter(sorted(validator.iter_errors(result), key=lambda error: [str(step) for step in error.path])), None):
            raise PageError(f"{where}: {'/'.join(map(str, error.absolute_path)) or '(top)'}: {error.message[:300]}.")
        found[path.stem] = result
    return found


def measure(form, root, words, results, examples):
    """The widget that measures: `form` is whole (charts, a result to keep) or short. js/site.js fetches the script when the reader presses its button."""
    if form not in ("whole", "short"):
        raise PageError(f"widget.gpu has the forms whole and short, not '{form}'.")
    seconds, mib = (SECONDS, MIB) if form == "whole" else SHORT
    said = {"seconds": seconds, "memory": f"{mib} MiB", "heads": HEADS}
    happens, ask = (words.gpu.happens if form == "whole" else words.gpu.happens_short).format(**said), words.gpu.ask.format(**said)
    data = {"widget": "gpu", "form": form, "root": root, "heads": HEADS, "seconds": seconds, "mib": mib, "from": 256, "id": identity(examples)}
    written = "".join(f' data-{key}="{html.escape(str(value), quote=True)}"' for key, value in data.items())
    known = json.dumps({"h200": points(results)} if form == "whole" else {}, separators=(",", ":"), allow_nan=False)
    return (
        f'<div class="widget widget-gpu"{written} data-ask="{ask}" data-search-exclude><div class="bar start"><button type="button" class="primary">{ask}</button></div>'
        f'<p class="happens">{happens}</p><noscript><p class="hint">{words.gpu.scripts}</p></noscript><script type="application/json">{known}</script></div>'
    )


def editor(name, root, words, text):
    """A kernel in an editor; without scripts its text stands there to be read."""
    link = f'<a href="{root}examples/webgpu/{name}.wgsl" download>{name}.wgsl</a>'
    return (
        f'<div class="widget widget-wgsl" data-widget="wgsl" data-root="{root}" data-file="{name}.wgsl" data-heads="{HEADS}" data-length="1024" data-search-exclude>'
        f'<div class="editor"><textarea readonly spellcheck="false" autocapitalize="off" autocomplete="off" wrap="off" rows="16" aria-label="{words.wgsl.source.format(name=f"{name}.wgsl")}">{html.escape(text)}</textarea></div>'
        f'<p class="files">{words.wgsl.files.format(link=link)}</p></div>'
    )
