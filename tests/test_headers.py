"""Each column of a measured table, and each curve of a chart, stands under words that mean it and nothing beside it: two headers that changed places are red.

The build checks the unit of a header (docs/hooks/core/placeholders.py); columns of one unit are told apart by their words, which stand here a second time.
"""
import re

import pytest
from support import LANGUAGES, TOP

TABLE = re.compile(r"\s*\{\{ (\w+)(?:@[\w-]+)?\.(rows|chart|roofline)(?:\[.*?\])?: (.*?) \}\}\s*$")
WORDS = {   # a column: what its header says, in English | in Chinese
    "S": r"^S|length S|序列长度 S", "B": "^B$", "Br": "^Br$", "d": "^d$", "kv_heads": "KV heads|KV 头", "gpus": "^GPU", "parts": "parts|段数", "blocks": "blocks|线程块", "samples": "samples|样本",
    "causal": "causal|因果", "deterministic": "deterministic|确定性", "refused": "refused|拒绝", "identical": "equal|^相同", "within_rule": "kept|合格", "equals_v0": "equals v|等于",
    "status": "status|result|状态|结果", "result": "result|结果", "sees": "sees|看到", "when": "when|何时", "case": "case|情形", "sharding": "sharding|切分方式", "rotate": "move by|传法",
    "impl": "asked|program|backend$|ceiling|要求|指定|程序|后端$|上限$", "a": "^one$|^一个$", "b": "other|另一个", "step": "^kernel$", "kernel": "^kernel$|^name$|名称", "link_kernel": "between|卡间",
    "backend": "ran$|backend|answered|实际|后端|谁", "no_cudnn_backend": "without cuDNN|[关不].*cuDNN", "growth": "growth|增长", "no_cudnn_growth": "growth|增长", "rounded": "rounded|舍入",
    "naive": "naive|朴素", "flash": "PyTorch", "cudnn": "cuDNN",
    "naive_mib": "naive(?!.*(keep|kept|pred))|朴素(?!.*(留下|预测))", "flash_mib": "flash(?!.*(keep|kept|pred|alloc))|flash(?!.*(留下|预测|分配))", "flash_alloc_mib": "flash alloc|flash 分配",
    "naive_kept_mib": "naive.* (keeps|kept)|朴素.*留下", "flash_kept_mib": "flash.* (keeps|kept)|flash.*留下", "naive_predicted_mib": "naive pred|朴素.*预测", "flash_predicted_mib": "flash pred|flash 预测",
    "naive_diff_bytes": "naive, peak|朴素，峰值|diff|差", "flash_diff_bytes": "flash, peak|flash，峰值|diff|差", "naive_kept_diff_bytes": "naive, kept|朴素，留下", "flash_kept_diff_bytes": "flash, kept|flash，留下",
    "naive_fwd_ms": "naive forward|朴素前向", "naive_bwd_ms": "naive backward|朴素反向", "flash_fwd_ms": "flash forward|flash 前向", "flash_bwd_ms": "flash backward|flash 反向",
    "default_mib": "peak|峰值", "default_fwd_ms": "forward|前向", "default_bwd_ms": "backward, ms|反向（ms", "default_bwd_tflops": "backward, T|反向（T", "bwd_ms": "backward|反向",
    "flash_fwd_tflops": "flash forward|flash 前向", "flash_bwd_tflops": "flash backward|flash 反向", "flash_bwd_over_fwd": "flash backward / forward|flash 反向 / 前向", "naive_bwd_over_fwd": "naive backward / forward|朴素反向 / 前向",
    "ratio": "naive / flash|朴素 / flash", "speedup": "naive / flash|times as fast|朴素 / flash|加速比|几倍", "alone_speedup": "^alone$|^单独时$", "naive_over_this": "naive's error / this|朴素误差 / 本行误差",
    "peak_mib": "peak|each|measured|峰值|每张|实测", "predicted_mib": "predicted|预测", "added_mib": "added|额外", "diff_bytes": "predicted − measured|预测 − 实测", "pass_diff_bytes": "predicted − counted|预测 − 计数",
    "pass_mib": "sent|传送", "message_mib": "message|消息", "single_peak_mib": "one GPU|单卡", "single_ms": "one GPU|单卡", "kv_mib": "k and v,|k 和 v", "kv_at_work_mib": "at work|在算",
    "read_mib": "^read|读", "write_mib": "written|写", "model_mib": "both|合计", "model_read_mib": "model|q, k|模型|q、k", "model_write_mib": "model|LSE|模型", "sm_mib": "SM ↔ L2", "sm_model_mib": "tile model|分块模型",
    "ms": r"^(time|on the GPU|median|two|together), ms|^(时间|GPU 上|中位数|双卡|同时进行)（ms）|^ms$", "alone_ms": "^alone|^单独", "p10_ms": "10", "p90_ms": "90", "rank0_ms": "first|GPU 0|第一", "last_rank_ms": "second|GPU 1|第二",
    "compute_ms": "kernels alone|只算", "transfer_ms": "passes alone|只传", "serial_ms": "in turn|先传", "saved_ms": "saved|省下", "hidden_pct": "hidden|隐藏", "rank0_work_pct": "GPU 0", "last_rank_work_pct": "GPU 1",
    "gbps": "read|by hand|^GB/s$|读|手工", "traffic_gbps": "^GB/s$", "tflops": "^TFLOP/s$", "roof_tflops": "^(roof|上限)", "of_copy_pct": "copy|拷贝", "of_roof_pct": "roof|上限", "off_pct": "off the model|偏离模型",
    "sm_off_pct": "off the model|偏离模型", "read_off_pct": "above|多", "floor_ratio": "floor|下界", "intensity": "FLOP/", "neighbours_pct": "neighbours|相邻", "off_v0": "off v|之差",
    "rel_err": "relative|相对", "max_err": "largest error|最大误差", "allowed_max_err": "allowed|允许", "max_diff": "largest diff|最大的差", "differing": "^differ|^不同的", "dq_differing": "dq", "dk_differing": "dk", "dv_differing": "dv",
}
ORDER = ["case backend growth no_cudnn_backend no_cudnn_growth", "naive_predicted_mib naive_diff_bytes flash_predicted_mib flash_diff_bytes", "read_mib model_read_mib write_mib model_write_mib"]   # where two headers are the same, the column before says of what


def tables(lang):
    """(place, kind, columns, what stands over them) of every table of rows and every chart."""
    for path in sorted((TOP / "docs" / lang).glob("*.md")):
        lines = path.read_text("utf-8").split("\n")
        for i, line in enumerate(lines):
            if match := TABLE.match(line):
                if match[2] == "rows":
                    columns, heads = match[3].split(), [cell.strip() for cell in re.split(r"(?<!\\)\|", lines[i - 2].strip().strip("|"))]
                else:
                    columns, heads = zip(*re.findall(r'(\w+)="([^"]*)"', match[3]))
                yield f"{lang}/{path.name}:{i + 1}", match[2], list(columns), list(heads)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_header_means_its_column_and_no_other(lang):
    wrong = []
    for place, kind, columns, heads in tables(lang):
        for column, head in zip(columns, heads):
            if column not in WORDS:
                wrong.append(f"{place}: {column} is new: say in WORDS what stands over it ('{head}')")
            elif not re.search(WORDS[column], head):
                wrong.append(f"{place}: '{head}' stands over {column}: correct it, or WORDS")
            beside = [other for other, said in zip(columns, heads) if other != column and said != head and re.search(WORDS.get(column, "^$"), said) and re.search(WORDS.get(other, "^$"), head)]
            if beside:
                wrong.append(f"{place}: '{head}' of {column} and the header of {beside[0]} could change places unseen: make WORDS tell them apart")
        if len(set(heads)) < len(heads) and not any(order in " ".join(columns) for order in ORDER):
            wrong.append(f"{place}: two headers are the same, {heads}: give one more words, or say in ORDER which column stands where")
    assert not wrong, "\n".join(wrong)


def test_the_tables_are_found_and_both_languages_have_them():
    found = [[(kind, columns) for _, kind, columns, _ in tables(lang)] for lang in LANGUAGES]
    assert found[0] == found[1] and len(found[0]) >= 60
