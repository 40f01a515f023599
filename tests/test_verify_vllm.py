"""The check of the statements about vLLM: each statement can turn red, each way of not checking says so, the evidence is of these statements.

No network and no vLLM here: toy.txt is a toy with the shapes of the real files. The real run is `make verify-vllm`.
"""
import ast
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile

import pytest
from support import TOP
from verify import source, statements
from verify import vllm as tool

TOY = dict(re.findall(r"^### (\S+)\n(.*?)(?=^### |\Z)", (TOP / "tools/verify/toy.txt").read_text("utf-8"), re.M | re.S))
BY_ID = {s.id: s for s in statements.STATEMENTS}
A, C, F, U = statements.ARGS, statements.CUDA, statements.FA, statements.FA_UTILS
I, L, S = statements.INTERFACE, statements.ATTENTION, statements.SCHEDULER

# What would make each statement false: file, old text, new text.
MUTATIONS = {
    "flag-backend": (A, '"--attention-backend"', '"--attn-backend"'),
    "flag-config": (A, '"--attention-config", "-ac"', '"--attention-config"'),
    "flag-sets": (A, "attention_config.backend = AttentionConfig", "self.backend = AttentionConfig"),
    "flags-exclusive": (A, "if attention_config.backend is not None:", "if attention_config.backend is not None and self.strict:"),
    "config-backend": (statements.CONFIG, "backend: AttentionBackendEnum | None = None", "backend: AttentionBackendEnum | None = FLASH_ATTN"),
    "config-backend-read": (statements.CONFIG, "value.upper()", "value"),
    "env-gone": (C, "@cache", 'PREFERRED = os.environ.get("VLLM_ATTENTION_BACKEND")\n\n\n@cache'),
    "env-unknown": ("vllm/envs.py", "            if hard_fail:\n", "            if False:\n"),
    "registry": (statements.REGISTRY, "flash_attn.FlashAttentionBackend", "flash.FlashAttentionBackend"),
    "registry-unknown": (statements.REGISTRY, "raise ValueError", "raise LookupError"),
    "layer-asks": (L, "get_attn_backend(", "default_backend("),
    "selector": (statements.SELECTOR, "backend = attention_config.backend", "backend = None"),
    "class-loaded": (statements.SELECTOR, "resolve_obj_by_qualname(attention_cls)", "FlashAttentionBackend"),
    "implementation": (F, "return FlashAttentionImpl", "return FlashAttentionPagedImpl"),
    "order-default": (C, "AttentionBackendEnum.FLASH_ATTN, AttentionBackendEnum.FLASHINFER]", "AttentionBackendEnum.FLASHINFER, AttentionBackendEnum.FLASH_ATTN]"),
    "order-sm100": (C, "device_capability.major == 10", "device_capability.major == 11"),
    "order-sm100-non-causal": (C, " and not use_non_causal", ""),
    "automatic": (C, "chosen = min(", "chosen = max("),
    "explicit": (C, 'logger.info("Using %s backend.", selected_backend)', "pass"),
    "explicit-unsupported": (C, "raise ValueError(f\"Selected", "logger.warning(f\"Selected"),
    "capability": (F, "DeviceCapability(8, 0)", "DeviceCapability(7, 5)"),
    "dtypes": (F, "[torch.float16, torch.bfloat16]", "[torch.float16, torch.bfloat16, torch.float32]"),
    "head-sizes": (F, "else 256", "else 128"),
    "fa-version": (U, "(10, 4)", "(12, 4)"),
    "fa-alibi": (U, "    if requires_alibi:\n        version = 2\n", ""),
    "fa-large-head-sm90": (U, "head_size > 256", "head_size > 512"),
    "fa-head-256-sm100": (U, "head_size != 192", "head_size not in (192, 256)"),
    "fa-head-192-sm100": (U, " and head_size != 192", ""),
    "fa-override": (statements.CONFIG, "Literal[2, 3, 4]", "Literal[2, 3]"),
    "fa-batch-invariant": (U, "envs.VLLM_BATCH_INVARIANT and", "False and"),
    "fa-override-wins": (U, "version = config.attention_config.flash_attn_version", "pass"),
    "fa-override-unsupported": (U, "card.major >= 10 and version == 3", "card.major > 10 and version == 3"),
    "fa-log": (F, "logger.info_once(", "logger.debug("),
    "model-call": (statements.QWEN2, "self.attn(q, k, v)", "self.attn(q, k, v, positions)"),
    "no-batch-axis": (L, "query.view(-1, self.num_heads", "query.view(B, -1, self.num_heads"),
    "write-first": (L, "unified_kv_cache_update(key, value, self.layer_name)\n            unified", "pass\n            unified"),
    "write-separate": (F, "forward_includes_kv_cache_update: bool = False", "forward_includes_kv_cache_update: bool = True"),
    "write-call": (L, "attn_layer.impl.do_kv_cache_update", "attn_layer.impl.write"),
    "write-arguments": (F, "do_kv_cache_update(self, layer, key", "do_kv_cache_update(self, key"),
    "write-kernel": (F, "        reshape_and_cache_flash(\n            key, value,", "        reshape_and_cache_flash(\n            value, key,"),
    "write-op": ("vllm/_custom_ops.py", "torch.ops._C_cache_ops.", "torch.ops._C."),
    "forward-call": (L, "attn_metadata, output=output", "attn_metadata, out=output"),
    "forward-arguments": (F, "        kv_cache: torch.Tensor,\n        attn_metadata", "        attn_metadata"),
    "forward-lacks": (F, "        output: torch.Tensor,\n", "        output: torch.Tensor,\n        block_table: torch.Tensor,\n"),
    "metadata": (F, "    seq_lens: torch.Tensor\n", ""),
    "causal-default": (F, "causal: bool = True", "causal: bool = False"),
    "inner-callee": (F, "        flash_attn_varlen_func(", "        flash_attn_with_kvcache("),
    "inner-keywords": (F, "            softcap=self.logits_soft_cap,\n", ""),
    "inner-cache": (F, "k=key_cache", "k=key"),
    "inner-scale": (F, "softmax_scale=self.scale", "softmax_scale=1.0"),
    "inner-metadata": (F, "block_table = attn_metadata.block_table", "block_table = self.block_table"),
    "scale-model": (statements.QWEN2, "**-0.5", "**-1"),
    "scale-layer": (F, "self.scale = float(scale)", "self.scale = 1 / scale"),
    "kernels": (I, "torch.ops._vllm_fa3_C.fwd(q, k, v, block_table, causal)", "torch.ops._vllm_fa3_C.fwd(q, k, v, None, causal)"),
    "gqa": (I, "with fewer\n    heads than Q", "with as many\n    heads as Q"),
    "kernel-source": ("cmake/external_projects/vllm_flash_attn.cmake", "vllm-project/", "Dao-AILab/"),
    "alignment": (I, "bottom right", "top left"),
    "masked-rows": (I, "will be zero.", "is undefined."),
    "cascade": ("vllm/v1/worker/gpu/attn_utils.py", "common_prefix_len=0", "common_prefix_len=common.prefix"),
    "cache-shape": (F, "(num_blocks, num_kv_heads, block_size, 2 * head_size)", "(2, num_blocks, block_size, num_kv_heads, head_size)"),
    "cache-split": (F, "kv_cache.transpose(1, 2).split(self.head_size, dim=-1)\n        cu_seqlens_q", "kv_cache.unbind(0)\n        cu_seqlens_q"),
    "block-size": ("vllm/config/cache.py", "= 16", "= 32"),
    "block-multiple": (F, "MultipleOf(16)", "MultipleOf(64)"),
    "blocks-from-pool": ("vllm/v1/core/block_pool.py", "popleft_n", "neighbours"),
    "table-rows": (statements.SLOTS, "(self.max_num_reqs, max_num_blocks)", "(max_num_blocks,)"),
    "table-lookup": (statements.SLOTS, "positions // (block_size * CP_SIZE)", "positions"),
    "slot": (statements.SLOTS, "block_numbers * block_size + block_offsets", "block_numbers + block_offsets"),
    "runner": ("vllm/config/vllm.py", "and not self.model_config.is_moe", "and self.model_config.is_moe"),
    "chunked-default": (A, "self.enable_chunked_prefill = default_chunked_prefill", "self.enable_chunked_prefill = False"),
    "chunked-supported": ("vllm/config/model.py", '!= "encoder_decoder"', '== "decoder_only"'),
    "budget": (A, ' and "a100" not in current_platform.get_device_name().lower()', ""),
    "budget-b200": (A, "        large = ", "        if current_platform.get_device_total_memory() >= 160 * GiB_bytes:\n"
                    "            return {UsageContext.OPENAI_API_SERVER: 16384}, {}\n        large = "),
    "budget-gb10": (A, "        large = ", "        if current_platform.is_device_capability((12, 1)):\n            return {UsageContext.OPENAI_API_SERVER: 2048}, {}\n        large = "),
    "budget-throughput": (A, "self.max_num_batched_tokens *= 2", "pass"),
    "budget-limit": (A, "70 * GiB_bytes", "64 * GiB_bytes"),
    "budget-flag": (A, '"--max-num-batched-tokens"', '"--max-batched-tokens"'),
    "budget-name": (S, "self.scheduler_config.max_num_batched_tokens", "self.scheduler_config.max_model_len"),
    "new-tokens": (S, " - request.num_computed_tokens", ""),
    "lengths": ("vllm/v1/worker/gpu/input_batch.py", "num_computed_tokens + query_len", "query_len"),
    "budget-cut": (S, "num_new_tokens = min(num_new_tokens, token_budget)", "num_new_tokens = request.num_tokens"),
    "running-first": (S, "req_index < len(self.running) and token_budget > 0", "token_budget > 0"),
    "torch": ("requirements/cuda.txt", "2.11.0", "2.12.0"),
    "dcp-flag": (A, '"--decode-context-parallel-size", "-dcp"', '"--decode-context-parallel-size"'),
    "dcp-ranks": (statements.PARALLEL, "tp % dcp != 0", "tp * pcp % dcp != 0"),
    "dcp-queries": (F, "get_dcp_group().all_gather(query, dim=1)", "query"),
    "dcp-merge": (F, "query_attn_out, query_lse)", "query_attn_out)"),
    "pcp-flag": (A, '"--prefill-context-parallel-size", "-pcp"', '"--prefill-context-parallel"'),
    "pcp-support": (statements.BACKEND, "supports_pcp: bool = True", "supports_pcp: bool = False"),
    "pcp-refused": (statements.BACKEND, "use_pcp and not cls.supports_pcp()", "use_pcp"),
    "batch-switch": ("vllm/envs.py", '"VLLM_BATCH_INVARIANT", "0"', '"VLLM_BATCH_INVARIANT", "1"'),
    "batch-splits": (F, "            max_num_splits = 1", "            max_num_splits = 2"),
    "batch-schedule": (F, " and not fast_build and not envs.VLLM_BATCH_INVARIANT", " and not fast_build"),
    "batch-linear": ("vllm/model_executor/layers/linear.py", "linear_batch_invariant(x, layer.weight, bias)", "F.linear(x, layer.weight)"),
    "batch-backends": (F, "    def supports_batch_invariance(cls) -> bool:\n        return True", "    def supports_batch_invariance(cls) -> bool:\n        return False"),
    "batch-products": ("vllm/model_executor/layers/batch_invariant.py", '"CUBLASLT_WORKSPACE_SIZE"] = "1"', '"CUBLASLT_WORKSPACE_SIZE"] = "2"'),
    "cudnn-off": (C, "enable_cudnn_sdp(False)", "enable_cudnn_sdp(True)"),
}


def mutate(name, files=TOY):
    path, old, new = MUTATIONS[name]
    assert old in files[path], f"{path} of the toy has no {old!r}: adapt the mutation of {name}"
    return {**files, path: files[path].replace(old, new)}


class Index:
    """A package index that holds toys: `publish(version, files)`."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.monkeypatch, self.newest = folder, monkeypatch, None
        monkeypatch.setattr(tool, "unearth", self.unearth)

    def publish(self, version, files):
        path = self.folder / f"vllm-{version}.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name, text in {**files, "csrc/kernel.cu": "// not read", "README.md": "not read"}.items():
                member = tarfile.TarInfo(f"vllm-{version}/{name}")
                member.size = len(text.encode("utf-8"))
                archive.addfile(member, io.BytesIO(text.encode("utf-8")))
        if version == statements.PINNED:
            self.monkeypatch.setattr(statements, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
        self.newest = version
        return path

    def unearth(self, requirement, *options):
        return {"version": self.newest}   # every archive that a test publishes is in the cache already

    def record(self):
        """Run the check of both versions; returns (exit status, evidence or None)."""
        status = tool.record(self.folder, self.folder / "vllm.json")
        written = self.folder / "vllm.json"
        return status, json.loads(written.read_text("utf-8")) if written.exists() else None


@pytest.fixture
def index(tmp_path, monkeypatch):
    return Index(tmp_path, monkeypatch)


# Statements.


def test_ids_are_unique_and_each_has_a_mutation():
    assert len(BY_ID) == len(statements.STATEMENTS)
    assert set(MUTATIONS) == set(BY_ID), "a statement needs one mutation here that makes it false"


@pytest.mark.parametrize("statement", statements.STATEMENTS, ids=BY_ID)
def test_sentences_fit_a_table_in_two_languages(statement):
    sentences = [(statement.en, statement.zh)] + ([(statement.now.en, statement.now.zh)] if statement.now and statement.now.en else [])
    for en, zh in sentences:
        assert en.endswith(".") and zh.endswith("。") and not {"|", "\n"} & set(en + zh)
        assert sorted(re.findall(r"`[^`]*`", en)) == sorted(re.findall(r"`[^`]*`", zh)), "both languages quote the same code"
        plain = re.sub(r"`[^`]*`", "", zh)
        assert not re.search(r"[\u4e00-\u9fff][A-Za-z0-9]|[A-Za-z0-9%][\u4e00-\u9fff]", plain), f"a space belongs between Chinese and Latin: {zh}"
        assert not re.search(r"[\u4e00-\u9fff][,;:!?(]|[,;!?)][\u4e00-\u9fff]", plain), f"full-width punctuation: {zh}"


@pytest.mark.parametrize("statement", statements.STATEMENTS, ids=BY_ID)
def test_holds_in_the_toy(statement):
    result = tool.check(statement, source.Tree(TOY))
    assert result["holds"], tool.report(statement, result)


def test_layout_quotes_and_comments_do_not_matter():
    tree = source.Tree({path: ast.unparse(ast.parse(text)) if path.endswith(".py") else text for path, text in TOY.items()})
    for statement in statements.STATEMENTS:
        result = tool.check(statement, tree)
        assert result["holds"], tool.report(statement, result)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_statement_that_no_longer_holds_is_red_and_named(name, index, capsys):
    index.publish(statements.PINNED, mutate(name))
    status, evidence = index.record()
    error = capsys.readouterr().err
    assert status == 1 and evidence is None
    line = next((line for line in error.splitlines() if line.startswith(f"  {name}: ")), "")
    assert BY_ID[name].en in line and ("vllm/" in line or MUTATIONS[name][0] in line), error
    # It is that statement that went red, and few others with it.
    assert len(error.splitlines()) <= 6, error


@pytest.mark.parametrize("path", [path for path in TOY if path != "vllm/envs.py"])
def test_a_file_that_has_gone_is_named(path, index, capsys):
    index.publish(statements.PINNED, {p: text for p, text in TOY.items() if p != path})
    assert index.record() == (1, None)
    assert f"there is no {path}" in capsys.readouterr().err


def test_a_file_that_cannot_be_parsed_is_named(index, capsys):
    index.publish(statements.PINNED, {**TOY, F: TOY[F] + "\nclass:\n"})
    assert index.record() == (1, None)
    assert f"cannot parse {F}" in capsys.readouterr().err


# Another version.


def after(evidence):
    return {row["id"]: row["newest"] for row in evidence["statements"]}


def test_the_same_release_twice(index):
    index.publish(statements.PINNED, TOY)
    status, evidence = index.record()
    assert status == 0 and {row["status"] for row in after(evidence).values()} == {"same"}


def test_moved_and_changed_are_told_apart(index, capsys):
    index.publish(statements.PINNED, TOY)
    later = mutate("torch", mutate("dtypes", TOY))
    later["requirements/cuda.txt"] = later["requirements/cuda.txt"].replace("2.12.0", "2.14.0")
    later[U] = "# one line more\n" + later[U]
    index.publish("0.99.0", later)
    status, evidence = index.record()
    assert status == 0 and evidence["versions"]["newest"]["version"] == "0.99.0"
    rows = after(evidence)
    assert rows["fa-version"]["status"] == "moved" and rows["registry"]["status"] == "same"
    assert rows["torch"] == {"file": "requirements/cuda.txt", "line": 2, "found": "2.14.0", "status": "changed",
                             "en": BY_ID["torch"].now.en, "zh": BY_ID["torch"].now.zh}
    assert rows["dtypes"]["status"] == "changed" and "en" not in rows["dtypes"]
    assert "Not explained yet, give it a `now` in tools/verify/statements.py: dtypes\n" in capsys.readouterr().out


def test_what_stands_in_another_file_has_moved(index):
    index.publish(statements.PINNED, TOY)
    check = TOY["vllm/envs.py"].partition("def validate_environ")[2].replace("(hard_fail", "(cls, hard_fail")
    platform = "class Platform:\n" + re.sub("(?m)^(?=.)", "    ", "def validate_environ" + check)
    index.publish("0.99.0", {**TOY, "vllm/envs.py": TOY["vllm/envs.py"].partition("\n\n\n")[0], "vllm/platforms/interface.py": platform})
    row = after(index.record()[1])["env-unknown"]
    assert (row["status"], row["file"]) == ("moved", "vllm/platforms/interface.py")


def test_one_version_is_red_only_for_news(index, capsys):
    index.publish("0.98.0", {**TOY, "requirements/cuda.txt": "torch==2.14.0\n"})
    assert tool.verify("0.98.0", index.folder) == 0
    assert f"{len(BY_ID) - 1} of {len(BY_ID)} statements hold, 1 changed as noted, 0 do not hold" in capsys.readouterr().out
    index.publish("0.99.0", mutate("torch"))
    assert tool.verify("0.99.0", index.folder) == 1
    assert re.match(r'  torch: .* \[requirements/cuda.txt:2\] found "2.12.0", expected "2.11.0"\n', capsys.readouterr().err)
    index.publish(statements.PINNED, {**TOY, "requirements/cuda.txt": "torch==2.14.0\n"})
    assert tool.verify(statements.PINNED, index.folder) == 1, "in the pinned version a known change is red too"


# Nothing could be checked.


def refused(capsys, status, *words):
    lines = capsys.readouterr().err.splitlines()
    assert status == 2 and len(lines) == 1, lines
    for word in words:
        assert word in lines[0]


def test_another_archive_under_the_pinned_name(index, capsys, monkeypatch):
    index.publish(statements.PINNED, TOY)
    monkeypatch.setattr(statements, "SHA256", "0" * 64)
    monkeypatch.setattr(tool, "record", lambda: tool.read(statements.PINNED, index.folder))
    refused(capsys, tool.main([]), "is not the archive that was read", "Delete it")


def test_a_damaged_archive(index, capsys, monkeypatch):
    path = index.publish("0.99.0", TOY)
    path.write_bytes(path.read_bytes()[:2000])
    monkeypatch.setattr(tool, "verify", lambda version: tool.read(version, index.folder))
    refused(capsys, tool.main(["0.99.0"]), "is damaged", "Delete it")


UNEARTH = {
    "no network": ("raise OSError('[Errno 111] Connection refused')", "newest", ["gave no answer", "Connection refused"]),
    "unknown version": ("print('No matches are found.', file=__import__('sys').stderr); raise SystemExit(1)", "0.0.99", ["no source archive", "vllm==0.0.99"]),
    "not installed": ("raise SystemExit('python: No module named unearth')", "newest", ["make verify-vllm installs it"]),
    "not a version": ("raise SystemExit('never asked')", "../../etc", ["is not a version"]),
}


@pytest.mark.parametrize("name", UNEARTH)
def test_one_clear_line(name, tmp_path):
    body, version, words = UNEARTH[name]
    (tmp_path / "unearth.py").write_text(body + "\n")
    run = subprocess.run([sys.executable, "-B", TOP / "tools/verify/vllm.py", version], env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert run.returncode == 2 and run.stdout == "" and len(run.stderr.splitlines()) == 1, run.stderr
    for word in words:
        assert word in run.stderr


def test_torch_is_not_needed():
    program = "import sys; sys.path[:0] = ['tools', 'examples']; from verify import vllm; print(sorted({'torch', 'numpy', 'mkdocs'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-B", "-c", program], cwd=TOP, capture_output=True, text=True, check=True).stdout == "[]\n"


# The evidence.


@pytest.fixture(scope="module")
def evidence():
    return json.loads(tool.EVIDENCE.read_text("utf-8"))


def test_the_evidence_is_of_these_statements(evidence):
    rows = [(row["id"], row["topic"], row["en"], row["zh"], row[statements.PINNED]["found"]) for row in evidence["statements"]]
    wanted = [(s.id, s.topic, s.en, s.zh, tool.plain(s.expected)) for s in statements.STATEMENTS]
    assert rows == wanted, "statements.py has changed since the evidence was made: run make verify-vllm"


def test_the_evidence_is_as_it_was_written(evidence):
    assert evidence["sha256"] == tool.digest(evidence), "docs/evidence/vllm.json was edited: run make verify-vllm"


def test_the_evidence_holds_and_explains_each_change(evidence):
    for row in evidence["statements"]:
        assert row[statements.PINNED]["holds"] and row[statements.PINNED]["file"], row["id"]
        newest, now = row["newest"], BY_ID[row["id"]].now
        assert newest["status"] in ("same", "moved", "changed") and newest["file"], row["id"]
        pinned = row[statements.PINNED]
        stays = (pinned["file"], pinned["line"]) == (newest["file"], newest["line"])
        assert row["status"] == newest["status"] and (newest["status"] == "changed" or stays == (newest["status"] == "same")), row["id"]
        if newest["status"] == "changed":
            assert now and (newest["en"], newest["zh"], newest["found"]) == (now.en, now.zh, tool.plain(now.expect)), row["id"]


def test_the_evidence_names_its_archives_and_its_day(evidence):
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", evidence["checked"])
    pinned, newest = evidence["versions"][statements.PINNED], evidence["versions"]["newest"]
    assert pinned == {"version": statements.PINNED, "archive": f"vllm-{statements.PINNED}.tar.gz", "sha256": statements.SHA256}
    assert re.fullmatch(r"[0-9a-f]{64}", newest["sha256"]) and newest["archive"] == f"vllm-{newest['version']}.tar.gz"
