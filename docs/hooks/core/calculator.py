"""What the calculator of the pages is given: cards with their sources, what was measured, and one example computed by the labs themselves.

Pure. A number of a card stands here and nowhere else; what a lab measured comes from its result.
"""
import types

from .errors import PageError
from .measured import short_kernel

# GB/s and TFLOP/s (10^9, 10^12) of dense bf16 products that accumulate in fp32; gib: a data sheet's GB taken as GiB.
CARDS = [
    {
        "key": "rtx-4090", "name": "RTX 4090", "sms": 128, "gib": 24, "gbps": 1008, "tflops": 165.2,
    },
    {
        "key": "l4", "name": "L4", "sms": 58, "gib": 24, "gbps": 300, "tflops": 121,
    },
    {
        "key": "a100", "name": "A100 80 GB SXM", "sms": 108, "gib": 80, "gbps": 2039, "tflops": 312,
    },
    {
        "key": "h100", "name": "H100 SXM", "sms": 132, "gib": 80, "gbps": 3350, "tflops": 989,
    },
    {
        "key": "h200", "name": "H200 SXM", "sms": 132, "gib": 141, "gbps": 4800, "tflops": 989, "measured": "nvidia-h200",
    },
    {
        "key": "b200", "name": "B200", "sms": 148, "gib": 180, "gbps": 7700, "tflops": 2250,
    },
]
EXAMPLE = {"B": 1, "heads": 28, "kv_heads": 28, "S": 4096, "d": 128, "dtype": "bf16", "causal": False}    # the lesson's
RESERVE = 2                                                # GiB: drivers report less than a data sheet, and the CUDA context lives there too
LABS = {"memory": "flash_vs_naive_memory", "time": "attention_roofline", "traffic": "hbm_traffic", "decode": "decode_attention"}


def cards(results, words):
    """The presets in order; behind a card that was measured, the same card under its measured ceilings."""
    found = []
    for card in CARDS:
        found.append({**card, "source": words.calculator.cards[card["key"]].text})
        result = results.get((card.get("measured"), LABS["time"]))
        if result:
            found.append({
                "key": f"{card['key']}-measured", "name": words.calculator.ceilings.text.format(name=card["name"]), "sms": result["machine"]["sms"], "gib": round(result["machine"]["memory"] / 2**30, 1),
                "gbps": round(result["values"]["copy_gbps"]), "tflops": round(result["values"]["matmul_tflops"]), "measured": card["measured"],
                "source": words.calculator.ceilings_source.text.format(gpu=result["machine"]["gpu"]),
            })
    return found


def measured(results):
    """What the labs measured, by card and shape: {slug: {gpu, runs, kernels, memory, time, traffic, decode}}.

    A shape is the text "B,heads,kv_heads,S,d,dtype,causal"; a kernel is its place in `kernels`. memory: [bytes, kernel] or null
    where it ran out of memory; time and decode: [ms, p10, p90, kernel]; traffic: [bytes read, bytes written, kernel].
    """
    found = {}
    for slug in sorted({gpu for gpu, lab in results if lab in LABS.values()}):
        have = {part: results[slug, lab] for part, lab in LABS.items() if (slug, lab) in results}
        kernels = {}

        def of(text, kernels=kernels):
            names = [short_kernel(name) for name in text.split(" + ")]
            return kernels.setdefault(" + ".join(name for i, name in enumerate(names) if i == 0 or name != names[i - 1]), len(kernels))

        entry = {"gpu": next(iter(have.values()))["machine"]["gpu"], "sms": next(iter(have.values()))["machine"]["sms"], "runs": {part: run_of(result) for part, result in have.items()}}
        for part, result in have.items():
            entry[part] = {}
            for row in result["rows"]:
                cells = cells_of(part, row, of)
                if cells:
                    entry[part].setdefault(shape_key(row), {}).update(cells)
        found[slug] = entry | {"kernels": list(kernels)}
    return found


def cells_of(part, row, of):
    """{impl: cells} of a row that is about one of the calculator's quantities; else {}."""
    where = row.get("part")
    if part == "memory" and where in ("grid", "random"):
        sides = {"naive": (row["naive_mib"], row["naive_kernel"]), "flash": (row["flash_mib"], row["kernel"])}
        return {impl: None if mib is None else [exact(mib * 2**20), of(kernel)] for impl, (mib, kernel) in sides.items()}
    if row["status"] != "ok":
        return {}
    if (part, where) in (("time", "grid"), ("time", "short"), ("decode", "decode")):
        return {row["impl"]: [row["ms"], row["p10_ms"], row["p90_ms"], of(row["kernel"])]}
    if (part, where) == ("traffic", "total"):
        return {row["impl"]: [row["read_bytes"], row["write_bytes"], of(row["kernel"])]}
    return {}


def exact(size):
    """A number of bytes that was written in MiB."""
    if size != int(size):
        raise PageError(f"{size} is no whole number of bytes: a result of {LABS['memory']} was rounded.")
    return int(size)


def shape_key(row):
    return ",".join(str(row[name]) for name in ("B", "heads", "kv_heads", "S", "d", "dtype")) + f",{int(row.get('causal', False))}"


def run_of(result):
    return {"torch": result["software"]["torch"], "date": result["run"]["started"][:10], "commit": (result["source"]["commit"] or "")[:9], "url": result["url"], "stale": result["stale"]}


def worked(files):
    """The example on the first card, by the labs' own functions. files: {name: text} of the example files."""
    memory, roofline, decode = (load(files, f"{LABS[part]}.py") for part in ("memory", "time", "decode"))
    B, heads, kv_heads, S, d, dtype, causal = EXAMPLE.values()
    card, e = CARDS[0], memory.BYTES[dtype]
    limit = (card["gib"] - RESERVE) * memory.GIB
    ceilings = {"copy_gbps": card["gbps"], "matmul_tflops": card["tflops"]}
    flops = roofline.attention_flops(B, heads, S, d, causal)
    moved = {"naive": roofline.naive_traffic(B, heads, S, d, e, causal), "flash": roofline.floor_bytes(B, heads, S, d, e)}
    cache = decode.kv_bytes(B, kv_heads, S, d, e)
    return {
        "bytes": dict(zip(("naive", "flash"), memory.predicted(EXAMPLE, card["sms"]))),
        "largest": {
            "naive": memory.largest_S(limit, lambda S: memory.naive_bytes(B, heads, kv_heads, S, d, e, causal)),
            "flash": memory.largest_S(limit, lambda S: memory.flash_bytes(B, heads, kv_heads, S, d, e, card["sms"])),
        },
        "flops": flops, "moved": moved, "ridge": roofline.ridge(ceilings),
        "roof": {impl: roofline.under_the_roof(flops, size, None, ceilings) for impl, size in moved.items()},
        "cache": cache, "decode": roofline.under_the_roof(flops // S, cache, None, ceilings),
    }


def load(files, name):
    """An example file as a module; the labs need nothing but the standard library until they measure."""
    if name not in files:
        raise PageError(f"there is no examples/{name}, whose formulas the calculator shows.")
    module = types.ModuleType(name.removesuffix(".py"))
    exec(compile(files[name], name, "exec"), module.__dict__)
    return module
