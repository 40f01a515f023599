"""The table of several GPUs: what the rows say together, and their text."""

from kit.table import cell, yes_no
from ring.formulas import least_shard, QWEN

CAP_GIB = 2                                                # an emulated card


def values(rows):
    """What the rows say together, as one flat dict; None where nothing was measured."""
    def part(name, **fields):
        return [row for row in rows if row["part"] == name and row["status"] == "ok" and all(row[key] == value for key, value in fields.items())]

    def last(column, **fields):
        return next((row[column] for row in reversed(part("grid", **fields))), None)

    grid, cap = part("grid"), [row for row in rows if row["part"] == "cap"]
    link = max((row["gbps"] for row in part("link")), default=None)
    tflops = last("single_tflops", causal=False)
    found = {
        "gpus": next((row["gpus"] for row in rows if row["part"] == "grid"), None), "link_gbps": link,
        "link": next((row["link"] for row in part("link")), None), "grid_rows": len(grid) or None,
        "memory_misses": sum(row["diff_bytes"] != 0 or row["single_diff_bytes"] != 0 for row in grid) if grid else None,
        "pass_misses": sum(row["pass_diff_bytes"] != 0 for row in grid) if grid else None,
        "longest_S": max((row["S"] for row in grid), default=None), "single_tflops": tflops,
        "full_speedup": last("speedup", causal=False), "contiguous_speedup": last("speedup", causal=True, sharding="contiguous"),
        "zigzag_speedup": last("speedup", causal=True, sharding="zigzag"),
        "exposed_most_pct": max((row["exposed_pct"] for row in grid), default=None),
        "least_shard": least_shard(1e12 * tflops, 1e9 * link, QWEN["heads"] // QWEN["kv_heads"]) if tflops and link else None,
        "least_shard_mha": least_shard(1e12 * tflops, 1e9 * link, 1) if tflops and link else None,
        "cap_gib": CAP_GIB if cap else None,
    }
    for impl, name in (("one GPU", "one_gpu"), ("ring", "ring"), ("ring by head", "by_head")):
        rows_of = [row for row in cap if row["impl"] == impl]
        found[f"cap_{name}_fit_S"] = max((row["S"] for row in rows_of if row["status"] == "ok"), default=None)
        found[f"cap_{name}_fail_S"] = min((row["S"] for row in rows_of if row["status"] == "oom"), default=None)
    return found


def header(part):
    """The lines above the first row of a part."""
    return {
        "link": "What every GPU sends to its neighbour while it receives as much. GB = 10^9 bytes, one direction\nmessage MiB        ms      GB/s  kernel",
        "grid": "\nThe ring, and one GPU with the same kernel. Times in ms (slowest rank; median, p10, p90); peak MiB requested on each GPU; off in bytes\n"
                "     S  causal  sharding       1 GPU       ring       p10       p90  speed-up    rank 0 last rank  kernels alone  passes alone   peak MiB  off  1 GPU MiB  off  sent MiB  off  kernel",
        "overlap": "\nNo mask: passes beside the kernels, or before them. Times in ms\nKV heads      S  sent MiB  kernels alone  passes alone  in turn  together  hidden  kernel",
        "by_head": "\nThe ring one KV head at a time\n     S  causal  sharding        ms       p10       p90   peak MiB  off  kernel",
        "context_parallel": "\nPyTorch's context_parallel on the same shards\n     S  causal  rotate          ms       p10       p90   peak MiB  kernel",
        "cap": f"\nGPUs of {CAP_GIB} GiB, emulated: the allocator of each process may reserve no more (the CUDA context and NCCL are not in it). Causal",
        "cpu": "Processes on a CPU, gloo, bf16. Times in ms\n     S  causal  sharding          ms    rank 0 last rank  work of rank 0, last rank  passes  sent MiB  expected",
    }[part]


def line(row):
    """A row as text."""
    kernel = " + ".join(filter(None, (row["kernel"] or "-", row.get("link_kernel"))))
    if row["part"] == "link":
        return f"{row['message_mib']:11.0f} {row['ms']:9.3f} {row['gbps']:9.1f}  {kernel}"
    if row["part"] == "cap":
        return (f"{row['impl']:13} {row['gpus']} x  S = {row['S']:7}  predicted {cell(row['predicted_mib'], 8)} MiB, measured {cell(row['peak_mib'], 8)}, "
                f"off {cell(row['diff_bytes'], 5, 0)}  {row['status']:3}  {kernel}")
    start = f"{row['S']:6}  {yes_no(row['causal']):>6}  "
    if row["part"] == "grid":
        return (f"{start}{row['sharding']:10} {cell(row['single_ms'], 9, 2)} {cell(row['ms'], 10, 2)} {cell(row['p10_ms'], 9, 2)} {cell(row['p90_ms'], 9, 2)} "
                f"{cell(row['speedup'], 9, 2)} {cell(row['rank0_ms'], 9, 2)} {cell(row['last_rank_ms'], 9, 2)} {cell(row['compute_ms'], 14, 2)} "
                f"{cell(row['transfer_ms'], 13, 3)} {cell(row['peak_mib'], 10)} {row['diff_bytes']:4} {cell(row['single_peak_mib'], 10)} {row['single_diff_bytes']:4} "
                f"{cell(row['pass_mib'], 9)} {row['pass_diff_bytes']:4}  {kernel}")
    if row["part"] == "overlap":
        return (f"{row['kv_heads']:8} {row['S']:6} {cell(row['pass_mib'], 9)} {cell(row['compute_ms'], 14, 3)} {cell(row['transfer_ms'], 13, 3)} "
                f"{cell(row['serial_ms'], 8, 3)} {cell(row['ms'], 9, 3)} {cell(row['hidden_pct'], 5, 0)} %  {kernel}")
    if row["part"] == "by_head":
        return (f"{start}{row['sharding']:10} {cell(row['ms'], 7, 2)} {cell(row['p10_ms'], 9, 2)} {cell(row['p90_ms'], 9, 2)} {cell(row['peak_mib'], 10)} "
                f"{row['diff_bytes']:4}  {kernel}")
    if row["part"] == "context_parallel":
        return f"{start}{row['rotate']:10} {cell(row['ms'], 7, 2)} {cell(row['p10_ms'], 9, 2)} {cell(row['p90_ms'], 9, 2)} {cell(row['peak_mib'], 10)}  {kernel}"
    return (f"{start}{row['sharding']:10} {cell(row['ms'], 7)} {cell(row['rank0_ms'], 9)} {cell(row['last_rank_ms'], 9)} {cell(row['rank0_work_pct'], 15)} % "
            f"{cell(row['last_rank_work_pct'], 6)} % {row['passes']:7} {cell(row['pass_mib'], 9, 3)} {cell(row['pass_predicted_mib'], 9, 3)}")


def footer(found):
    """What values() found, as lines."""
    lines = []
    if found["link_gbps"]:
        lines.append(f"\nThe link carries {found['link_gbps']:.0f} GB/s in each direction; one GPU reaches {found['single_tflops']:.0f} TFLOP/s. So a pass hides behind the "
                     f"kernel from S / P = {found['least_shard']} on, with as many KV heads as query heads from {found['least_shard_mha']}")
    if found["grid_rows"]:
        lines.append(f"{found['memory_misses']} of {found['grid_rows']} rows miss the predicted memory, {found['pass_misses']} the predicted bytes of a pass")
        lines.append(f"S = {found['longest_S']}, {found['gpus']} GPUs against one: {found['full_speedup']:.2f} times as fast without a mask, causal "
                     f"{found['contiguous_speedup']:.2f} contiguous and {found['zigzag_speedup']:.2f} zigzag")
    if found["cap_gib"]:
        lines.append(f"In {found['cap_gib']} GiB: " + "; ".join(
            f"{said} up to S = {found[f'cap_{name}_fit_S']}, not {found[f'cap_{name}_fail_S']}" for said, name in
            (("one GPU", "one_gpu"), ("the ring", "ring"), ("the ring by head", "by_head"))))
    return "\n".join(lines)
