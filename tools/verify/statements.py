"""Every statement about vLLM that the page 'Reading vLLM' makes, in both languages, and how to find it in a release.

`en` and `zh` say what holds in PINNED. `find` looks it up (source.py), `expect` is what it must find there. Where the
newest release says something else, `now` says what, and is checked in the same way; without `now` such a change is
news: `make verify-vllm` reports it, and a person writes the sentence.
"""
import collections
import types
from typing import Any, Callable, NamedTuple

from verify.source import (
    Missing, annotation, arguments, branches, call, callee, code, documented, evaluate, evaluated, every, fields, files_with, flags, load,
    overlap, raises, returns, text, value,
)

PINNED = "0.26.0"
SHA256 = "23e9fa19d7e20ce7dcc1c074d41503e2116d23f19e688f5d5ea91b741f958502"   # of the archive of PINNED


AS_STATED = object()


class Now(NamedTuple):
    """What the newest release says instead; with `find` alone, where the same now stands."""
    en: str = ""
    zh: str = ""
    expect: Any = AS_STATED
    find: Callable | None = None


class Statement(NamedTuple):
    id: str
    topic: str
    en: str
    zh: str
    find: Callable
    expect: Any = AS_STATED   # for a finder of given code, which knows what it looks for
    now: Now | None = None

    @property
    def expected(self):
        return self.find.expect if self.expect is AS_STATED else self.expect


ARGS = "vllm/engine/arg_utils.py"
ATTENTION = "vllm/model_executor/layers/attention/attention.py"
BACKEND = "vllm/v1/attention/backend.py"
CONFIG = "vllm/config/attention.py"
CUDA = "vllm/platforms/cuda.py"
FA = "vllm/v1/attention/backends/flash_attn.py"
FA_UTILS = "vllm/v1/attention/backends/fa_utils.py"
INTERFACE = "vllm/vllm_flash_attn/flash_attn_interface.py"
PARALLEL = "vllm/config/parallel.py"
QWEN2 = "vllm/model_executor/models/qwen2.py"
REGISTRY = "vllm/v1/attention/backends/registry.py"
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
SELECTOR = "vllm/v1/attention/selector.py"
SLOTS = "vllm/v1/worker/gpu/block_table.py"

# Stand-ins for what the evaluated functions use.

Capability = collections.namedtuple("Capability", "major minor")
CARDS = {"8.0": Capability(8, 0), "8.9": Capability(8, 9), "9.0": Capability(9, 0), "10.0": Capability(10, 0), "12.0": Capability(12, 0)}


class Name(str):
    """A member of an enumeration; it equals its name."""
    name = property(str)


class Members:
    """An enumeration that has every member."""
    def __getattr__(self, name):
        return Name(name)

    def __getitem__(self, name):
        return Name(name)


class Anything:
    """An object whose fields are those given, and None."""
    def __init__(self, **given):
        self.__dict__.update(given)

    def __getattr__(self, name):
        return None


class Log:
    """A logger that remembers its lines."""
    def __init__(self):
        self.lines = []

    def __getattr__(self, name):
        return lambda message, *values, **_: self.lines.append((name, message % values if values else message))


def platform(card):
    """A CUDA device of a compute capability."""
    level = card.major * 10 + card.minor
    return types.SimpleNamespace(
        get_device_capability=lambda: card, has_device_capability=lambda least: level >= least,
        is_device_capability_family=lambda family: card.major == family // 10, is_cuda=lambda: True, is_xpu=lambda: False, is_rocm=lambda: False)


def order(cards, **given):
    """The backends that `_get_backend_priorities` lists for models without MLA."""
    def question(tree):
        space = load(tree, CUDA, ["_get_backend_priorities"], AttentionBackendEnum=Members(), is_quantized_kv_cache=lambda dtype: False)
        return {card: space["_get_backend_priorities"](False, CARDS[card], **given) for card in cards}
    return evaluated(CUDA, "_get_backend_priorities", question)


def select(selected, unsupported, at=None):
    """What `get_attn_backend_cls` does on compute capability 8.9 if some backends find themselves unsupported."""
    def backend(name):
        return types.SimpleNamespace(full_cls_name=lambda: ("backends", name), validate_configuration=lambda **_: ["head_size not supported"] if name in unsupported else [])

    def question(tree):
        log = Log()
        space = load(
            tree, CUDA,
            ["_get_backend_priorities", "_backend_cls_path", "CudaPlatformBase.get_valid_backends", "CudaPlatformBase.get_attn_backend_cls"],
            AttentionBackendEnum=Members(), is_quantized_kv_cache=lambda dtype: False, _get_attn_backend_class=backend, logger=log,
            _BackendCandidate=collections.namedtuple("Candidate", "backend_class backend priority"))
        cls = types.SimpleNamespace(
            get_device_capability=lambda: CARDS["8.9"], device_name="cuda", get_valid_backends=lambda **given: space["get_valid_backends"](None, **given))
        config = Anything(use_mla=False, use_non_causal=False, _asdict=dict)
        try:
            result = {"chosen": space["get_attn_backend_cls"](cls, selected and Name(selected), config).partition(".")[2]}
        except ValueError as error:
            result = {"raises": "ValueError", "says": str(error)}
        return {**result, "logs": [line for level, line in log.lines if level.startswith("info")]}
    return evaluated(CUDA, "CudaPlatformBase.get_attn_backend_cls", question, at)


def fa_version(cards, head_size=128, alibi=None, forced=None, invariant=False):
    """The version that `FlashAttentionImpl.__init__` asks for and `get_flash_attn_version` gives, all kernels being built."""
    def question(tree):
        found = {}
        for card in cards:
            given = dict(current_platform=platform(CARDS[card]), logger=Log(), envs=Anything(VLLM_BATCH_INVARIANT=invariant) if invariant else Anything())
            kernels = load(
                tree, INTERFACE, ["_is_fa2_supported", "_is_fa3_supported", "_is_fa4_supported", "is_fa_version_supported", "fa_version_unsupported_reason"],
                **given, FA2_AVAILABLE=True, FA3_AVAILABLE=True, FA4_AVAILABLE=True)
            config = Anything(attention_config=Anything(flash_attn_version=forced)) if forced else None
            space = load(
                tree, FA_UTILS, **given, get_current_vllm_config_or_none=lambda: config, is_quantized_kv_cache=lambda dtype: False,
                **{name: kernels[name] for name in ("is_fa_version_supported", "fa_version_unsupported_reason")})
            layer = {"alibi_slopes": alibi, "head_size": head_size, "sinks": None, "self": Anything(), **space}
            found[card] = evaluate(tree, FA, "FlashAttentionImpl.__init__", "get_flash_attn_version", layer)
        return found
    return evaluated(FA_UTILS, "get_flash_attn_version", question)


def token_budget(**cards):
    """The default of max_num_batched_tokens for the API server, by card: (name, GiB), and its compute capability where the release asks for one."""
    def question(tree):
        found = {}
        for key, (name, gib, *capability) in cards.items():
            device = types.SimpleNamespace(
                get_device_total_memory=lambda: gib * 2**30, get_device_name=lambda: name, is_tpu=lambda: False, is_cpu=lambda: False,
                is_device_capability=lambda asked: asked in capability)
            space = load(tree, ARGS, ["EngineArgs.get_batch_defaults"], current_platform=device, UsageContext=Members(), GiB_bytes=2**30)
            found[key] = space["get_batch_defaults"](None, 1)[0]["OPENAI_API_SERVER"]
        return found
    return evaluated(ARGS, "EngineArgs.get_batch_defaults", question)


def unknown_variable(path, name, *receiver):
    """What the check of the environment does with VLLM_ATTENTION_BACKEND, known names being those of envs.py."""
    def question(tree):
        known = {key.value for key in tree.node("vllm/envs.py", "environment_variables").value.keys}
        log, variables = Log(), {"VLLM_ATTENTION_BACKEND": "FLASH_ATTN", sorted(known)[0]: "1"}
        check = load(
            tree, path, [name], os=Anything(environ=variables), logger=log, environment_variables=known, envs=Anything(environment_variables=known),
        )["validate_environ"]
        check(*receiver, False)
        try:
            check(*receiver, True)
        except ValueError as error:
            return {"default": log.lines, "fail_on_environ_validation": str(error)}
        raise Missing(f"{name} in {path} raises nothing")
    return evaluated(path, name, question)


def answer(path, name, ask, *more, **stand_ins):
    """`ask(function)` for one function of the release."""
    return evaluated(path, name, lambda tree: ask(load(tree, path, [name, *more], **stand_ins)[name.rpartition(".")[2]]))


def runner(tree):
    """Whether a dense decoder for generation runs on Model Runner V2."""
    path, stand_ins = "vllm/config/vllm.py", dict(
        envs=Anything(), HAS_TRITON=True, logger=Log(), DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES=(), current_platform=Anything(is_unspecified=lambda: False))
    model = Anything(runner_type="generate", architectures=["Qwen2ForCausalLM"], is_moe=False)
    config = Anything(model_config=model, attention_config=Anything(), _get_v2_model_runner_unsupported_features=list, _dflash_needs_multi_kv_group=bool)
    try:
        old = load(tree, path, ["VllmConfig._is_default_v2_model_runner_model"], **stand_ins)["_is_default_v2_model_runner_model"]
        config._is_default_v2_model_runner_model = lambda: old(config)
    except Missing:
        pass   # later releases no longer ask
    return load(tree, path, ["VllmConfig.use_v2_model_runner"], **stand_ins)["use_v2_model_runner"](config)


FLASH_FIRST = ["FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION", "TURBOQUANT"]
FLASHINFER_FIRST = ["FLASHINFER", "FLASH_ATTN", "TRITON_ATTN", "FLEX_ATTENTION", "TURBOQUANT"]

STATEMENTS = [
    # Choosing a backend.
    Statement(
        "flag-backend", "choose",
        "The flag is `--attention-backend`.",
        "命令行参数是 `--attention-backend`。",
        flags(ARGS, "EngineArgs.add_cli_args", "--attention-backend"), ["--attention-backend"]),
    Statement(
        "flag-config", "choose",
        "The whole attention configuration is `--attention-config`, short `-ac`.",
        "完整的注意力配置是 `--attention-config`，简写 `-ac`。",
        flags(ARGS, "EngineArgs.add_cli_args", "--attention-config"), ["--attention-config", "-ac"]),
    Statement(
        "flag-sets", "choose",
        "The flag's value becomes `AttentionConfig.backend`.",
        "该参数的值会成为 `AttentionConfig.backend`。",
        code(ARGS, "EngineArgs.create_engine_config", "attention_config.backend = AttentionConfig.validate_backend_before(self.attention_backend)")),
    Statement(
        "flags-exclusive", "choose",
        "Naming a backend in both is an error.",
        "两处同时指定后端会报错。",
        raises(ARGS, "EngineArgs.create_engine_config", "are mutually exclusive"),
        {"when": ["self.attention_backend is not None", "attention_config.backend is not None"], "raises": "ValueError"}),
    Statement(
        "config-backend", "choose",
        "`AttentionConfig.backend` is `None` unless set: automatic choice.",
        "`AttentionConfig.backend` 默认是 `None`，即自动选择。",
        value(CONFIG, "AttentionConfig.backend"), None),
    Statement(
        "config-backend-read", "choose",
        "Names are read in any case, and `auto` means the same as leaving it out.",
        "后端名不区分大小写，`auto` 等同于不填。",
        answer(CONFIG, "AttentionConfig.validate_backend_before", lambda f: {"none": f(None, None), "auto": f(None, "auto"), "flash_attn": f(None, "flash_attn")},
               AttentionBackendEnum=Members()),
        {"none": None, "auto": None, "flash_attn": "FLASH_ATTN"}),
    Statement(
        "env-gone", "choose",
        "The environment variable `VLLM_ATTENTION_BACKEND` no longer exists: no Python file under `vllm/` contains the word.",
        "环境变量 `VLLM_ATTENTION_BACKEND` 已不存在：`vllm/` 下没有任何 Python 文件含有这个词。",
        files_with("VLLM_ATTENTION_BACKEND"), []),
    Statement(
        "env-unknown", "choose",
        "Setting it only gives the warning `Unknown vLLM environment variable detected`, or an error if the engine is told to fail on such variables.",
        "设置它只会得到警告 `Unknown vLLM environment variable detected`；若要求引擎对未知变量报错，则启动失败。",
        unknown_variable("vllm/envs.py", "validate_environ"),
        {"default": [("warning", "Unknown vLLM environment variable detected: VLLM_ATTENTION_BACKEND")],
         "fail_on_environ_validation": "Unknown vLLM environment variable detected: VLLM_ATTENTION_BACKEND"},
        Now(find=unknown_variable("vllm/platforms/interface.py", "Platform.validate_environ", None))),
    Statement(
        "registry", "choose",
        "The name `FLASH_ATTN` stands for the class path of `FlashAttentionBackend`.",
        "名字 `FLASH_ATTN` 对应 `FlashAttentionBackend` 的类路径。",
        value(REGISTRY, "AttentionBackendEnum.FLASH_ATTN"), "vllm.v1.attention.backends.flash_attn.FlashAttentionBackend"),
    Statement(
        "registry-unknown", "choose",
        "A name that is not in the registry is an error that lists the valid ones.",
        "注册表里没有的名字会报错，并列出所有可用的名字。",
        raises(REGISTRY, "_AttentionBackendEnumMeta.__getitem__", "Unknown attention backend"), {"when": ["except KeyError"], "raises": "ValueError"}),
    Statement(
        "layer-asks", "choose",
        "Each attention layer asks for its backend when it is built.",
        "每个注意力层在构造时询问自己的后端。",
        callee(ATTENTION, "Attention.__init__", "use_per_head_quant_scales"), "get_attn_backend"),
    Statement(
        "selector", "choose",
        "The selector passes the configured backend to the platform, which decides.",
        "选择器把配置的后端交给平台，由平台决定。",
        code(SELECTOR, "get_attn_backend", "backend = attention_config.backend", "_cached_get_attn_backend")),
    Statement(
        "class-loaded", "choose",
        "The platform answers with a class path, and the selector imports that class.",
        "平台返回一个类路径，选择器再导入这个类。",
        code(SELECTOR, "_cached_get_attn_backend", "current_platform.get_attn_backend_cls", "backend = resolve_obj_by_qualname(attention_cls)")),
    Statement(
        "implementation", "choose",
        "The backend class names its implementation, `FlashAttentionImpl`; each attention layer makes one object of it.",
        "后端类给出自己的实现类 `FlashAttentionImpl`；每个注意力层创建它的一个实例。",
        every(code(ATTENTION, "Attention.__init__", "impl_cls = self.attn_backend.get_impl_cls()", "impl_cls"), returns(FA, "FlashAttentionBackend.get_impl_cls")),
        [["impl_cls = self.attn_backend.get_impl_cls()", "impl_cls"], ["FlashAttentionImpl"]]),
    Statement(
        "order-default", "choose",
        "Without a choice, the order of preference on compute capability 8.0, 8.9, 9.0 and 12.0 (models without MLA) is FLASH_ATTN, FLASHINFER, TRITON_ATTN, FLEX_ATTENTION, TURBOQUANT.",
        "不指定时，计算能力 8.0、8.9、9.0 和 12.0 上（非 MLA 模型）的优先顺序是 FLASH_ATTN、FLASHINFER、TRITON_ATTN、FLEX_ATTENTION、TURBOQUANT。",
        order(["8.0", "8.9", "9.0", "12.0"]), {card: FLASH_FIRST for card in ("8.0", "8.9", "9.0", "12.0")}),
    Statement(
        "order-sm100", "choose",
        "On compute capability 10.0 (B200) the first two change places: FLASHINFER comes before FLASH_ATTN.",
        "计算能力 10.0（B200）上前两名对调：FLASHINFER 排在 FLASH_ATTN 之前。",
        order(["10.0"]), {"10.0": FLASHINFER_FIRST}),
    Statement(
        "order-sm100-non-causal", "choose",
        "For non-causal attention FLASH_ATTN comes first on 10.0 too.",
        "非因果注意力在 10.0 上也以 FLASH_ATTN 优先。",
        order(["10.0"], use_non_causal=True), {"10.0": FLASH_FIRST}),
    Statement(
        "automatic", "choose",
        "The first backend of the list that supports the model is taken, and the log names it.",
        "列表中第一个支持该模型的后端被选中，日志会写出它的名字。",
        select(None, ["FLASH_ATTN"]),
        {"chosen": "FLASHINFER", "logs": [
            "Using FLASHINFER attention backend out of potential backends: ['FLASHINFER', 'TRITON_ATTN', 'FLEX_ATTENTION', 'TURBOQUANT']."]}),
    Statement(
        "explicit", "choose",
        "A backend that you name is taken if it supports the model, whatever the order says.",
        "你指定的后端只要支持该模型就会被采用，与优先顺序无关。",
        select("TRITON_ATTN", []), {"chosen": "TRITON_ATTN", "logs": ["Using TRITON_ATTN backend."]}),
    Statement(
        "explicit-unsupported", "choose",
        "A backend that you name and that does not support the model is an error at start-up, with the reason; nothing else is tried.",
        "你指定的后端若不支持该模型，启动时就报错并给出原因，不会改用别的后端。",
        select("FLASH_ATTN", ["FLASH_ATTN"], at=raises(CUDA, "CudaPlatformBase.get_attn_backend_cls", "Selected backend ", "invalid_reasons")),
        {"raises": "ValueError", "says": "Selected backend FLASH_ATTN is not valid for this configuration. Reason: ['head_size not supported']", "logs": []}),
    Statement(
        "capability", "choose",
        "FLASH_ATTN supports compute capability 8.0 and up; on 7.5 (T4) it is listed and found unsupported.",
        "FLASH_ATTN 要求计算能力 8.0 及以上；在 7.5（T4）上它在列表中，但会被判为不支持。",
        answer(FA, "FlashAttentionBackend.supports_compute_capability",
               lambda f: {"7.5": f(None, Capability(7, 5)), **{card: f(None, c) for card, c in CARDS.items()}}, DeviceCapability=Capability),
        {"7.5": False, "8.0": True, "8.9": True, "9.0": True, "10.0": True, "12.0": True}),
    Statement(
        "dtypes", "choose",
        "It supports fp16 and bf16.",
        "它支持 fp16 和 bf16。",
        value(FA, "FlashAttentionBackend.supported_dtypes"), "[torch.float16, torch.bfloat16]"),
    Statement(
        "head-sizes", "choose",
        "Head sizes are multiples of 8 up to 256 (up to 512 where FlashAttention-4 is available).",
        "head size 须是 8 的倍数且不超过 256（有 FlashAttention-4 时不超过 512）。",
        evaluated(FA, "FlashAttentionBackend.supports_head_size", lambda tree: {
            key: [n for n in (64, 100, 128, 256, 264, 512, 520) if load(
                tree, FA, ["FlashAttentionBackend.supports_head_size"], is_fa_version_supported=lambda version: four,
                current_platform=platform(CARDS["9.0"]))["supports_head_size"](None, n)]
            for key, four in (("without FA4", False), ("with FA4", True))}),
        {"without FA4": [64, 128, 256], "with FA4": [64, 128, 256, 264, 512]}),

    # Which FlashAttention.
    Statement(
        "fa-version", "version",
        "In a build that holds all three, FlashAttention 2 runs on compute capability 8.0, 8.9 and 12.0, version 3 on 9.0, version 4 on 10.0 (head size 128).",
        "三个版本都编译在内时，计算能力 8.0、8.9 和 12.0 运行 FlashAttention 2，9.0 运行第 3 版，10.0 运行第 4 版（head size 128）。",
        fa_version(CARDS), {"8.0": 2, "8.9": 2, "9.0": 3, "10.0": 4, "12.0": 2}),
    Statement(
        "fa-alibi", "version",
        "With ALiBi it is version 2 everywhere.",
        "使用 ALiBi 时一律是第 2 版。",
        fa_version(CARDS, alibi=[1.0]), {card: 2 for card in CARDS}),
    Statement(
        "fa-large-head-sm90", "version",
        "On 9.0 a head size above 256 takes version 4.",
        "9.0 上 head size 超过 256 时用第 4 版。",
        fa_version(["9.0"], head_size=512), {"9.0": 4}),
    Statement(
        "fa-head-256-sm100", "version",
        "On 10.0 a head size of 256 takes version 2.",
        "10.0 上 head size 为 256 时用第 2 版。",
        fa_version(["10.0"], head_size=256), {"10.0": 2},
        Now("On 10.0 a head size of 256 has a kernel of its own in version 4.", "10.0 上 head size 256 在第 4 版中有专门的 kernel。", {"10.0": 4})),
    Statement(
        "fa-head-192-sm100", "version",
        "On 10.0 a head size of 192 stays on version 4.",
        "10.0 上 head size 为 192 时仍用第 4 版。",
        fa_version(["10.0"], head_size=192), {"10.0": 4},
        Now("On 10.0 a head size of 192 takes version 2 in this backend; version 4 wants 192 for q, k and 128 for v.",
            "10.0 上 head size 192 在这个后端用第 2 版；第 4 版要求 q、k 为 192 且 v 为 128。",
            [{"10.0": 2}, ["head_size == 192 and head_size_v == 128"]],
            every(fa_version(["10.0"], head_size=192), code(FA_UTILS, "get_flash_attn_version", "head_size == 192 and head_size_v == 128")))),
    Statement(
        "fa-batch-invariant", "version",
        "`VLLM_BATCH_INVARIANT=1` takes 10.0 from version 4 to 2, at any head size.",
        "`VLLM_BATCH_INVARIANT=1` 会让 10.0 从第 4 版换到第 2 版，与 head size 无关。",
        every(fa_version(["10.0"], invariant=True), fa_version(["10.0"], head_size=64, invariant=True)), [{"10.0": 2}, {"10.0": 2}]),
    Statement(
        "fa-override", "version",
        "`--attention-config.flash_attn_version` takes 2, 3 or 4.",
        "`--attention-config.flash_attn_version` 可取 2、3 或 4。",
        annotation(CONFIG, "AttentionConfig.flash_attn_version"), "Literal[2, 3, 4] | None"),
    Statement(
        "fa-override-wins", "version",
        "The override wins on 9.0: 2 gives version 2.",
        "在 9.0 上该设置优先：填 2 就是第 2 版。",
        fa_version(["9.0"], forced=2), {"9.0": 2}),
    Statement(
        "fa-override-unsupported", "version",
        "3 on compute capability 10.0 becomes 4, with a warning.",
        "在计算能力 10.0 上填 3 会变成 4，并给出警告。",
        fa_version(["10.0"], forced=3), {"10.0": 4}),
    Statement(
        "fa-log", "version",
        "The log says which: `Using FlashAttention version …`.",
        "日志会写明：`Using FlashAttention version …`。",
        code(FA, "FlashAttentionImpl.__init__", "logger.info_once('Using FlashAttention version %s', self.vllm_flash_attn_version)")),

    # One step of one layer.
    Statement(
        "model-call", "step",
        "The model calls its attention layer with q, k and v only.",
        "模型调用注意力层时只传 q、k、v。",
        code(QWEN2, "Qwen2Attention.forward", "q, k = self.rotary_emb(positions, q, k)", "attn_output = self.attn(q, k, v)")),
    Statement(
        "no-batch-axis", "step",
        "There is no batch axis: the tokens of all requests of a step stand one behind the other, `[tokens, heads, head size]`.",
        "没有 batch 维：一步中所有请求的 token 首尾相接，形状为 `[tokens, heads, head size]`。",
        code(ATTENTION, "Attention.forward", "query = query.view(-1, self.num_heads, self.head_size)", "key = key.view(-1, self.num_kv_heads, self.head_size)")),
    Statement(
        "write-first", "step",
        "The layer first writes the new k and v to the cache, then attends.",
        "注意力层先把新的 k、v 写入缓存，再做注意力。",
        code(ATTENTION, "Attention.forward", "not self.attn_backend.forward_includes_kv_cache_update", "unified_kv_cache_update", "unified_attention_with_output",
             "torch.ops.vllm.unified_kv_cache_update", "torch.ops.vllm.unified_attention_with_output")),
    Statement(
        "write-separate", "step",
        "For FLASH_ATTN the write is not part of `forward`.",
        "对 FLASH_ATTN 来说，写缓存不属于 `forward`。",
        value(FA, "FlashAttentionBackend.forward_includes_kv_cache_update"), False),
    Statement(
        "write-call", "step",
        "The write goes through `do_kv_cache_update` of the implementation.",
        "写入经由实现类的 `do_kv_cache_update`。",
        code(ATTENTION, "unified_kv_cache_update", "attn_layer.impl.do_kv_cache_update(attn_layer, key, value, kv_cache, layer_slot_mapping)")),
    Statement(
        "write-arguments", "step",
        "It is given k, v, the layer's cache and the slot mapping.",
        "它得到 k、v、本层的缓存和 slot mapping。",
        arguments(FA, "FlashAttentionImpl.do_kv_cache_update"), ["layer", "key", "value", "kv_cache", "slot_mapping"]),
    Statement(
        "write-kernel", "step",
        "Its kernel `reshape_and_cache_flash` scatters each token to its slot.",
        "其 kernel `reshape_and_cache_flash` 把每个 token 写到自己的 slot。",
        code(FA, "FlashAttentionImpl.do_kv_cache_update",
             "reshape_and_cache_flash(key, value, key_cache, value_cache, slot_mapping, self.kv_cache_dtype, layer._k_scale, layer._v_scale)")),
    Statement(
        "write-op", "step",
        "That kernel is a custom operator of vLLM.",
        "该 kernel 是 vLLM 的自定义算子。",
        code("vllm/_custom_ops.py", "reshape_and_cache_flash", "torch.ops._C_cache_ops.reshape_and_cache_flash")),
    Statement(
        "forward-call", "step",
        "`forward` is called with the layer, q, k, v, the cache, the metadata and the output to fill.",
        "`forward` 的实参是注意力层、q、k、v、缓存、元数据和待填的输出。",
        code(ATTENTION, "unified_attention_with_output",
             "self.impl.forward(self, query, key, value, kv_cache, attn_metadata, output=output, output_scale=output_scale, output_block_scale=output_block_scale)")),
    Statement(
        "forward-arguments", "step",
        "The parameters of `FlashAttentionImpl.forward`.",
        "`FlashAttentionImpl.forward` 的形参。",
        arguments(FA, "FlashAttentionImpl.forward"),
        ["layer", "query", "key", "value", "kv_cache", "attn_metadata", "output", "output_scale=None", "output_block_scale=None"]),
    Statement(
        "forward-lacks", "step",
        "`softmax_scale`, `causal` and `block_table` are not among them.",
        "`softmax_scale`、`causal`、`block_table` 不在其中。",
        overlap(FA, "FlashAttentionImpl.forward", "softmax_scale", "causal", "block_table"), []),
    Statement(
        "metadata", "step",
        "The metadata hold what a step's requests share: offsets of the queries, lengths, block table, slot mapping, `causal`.",
        "元数据保存一步中各请求的信息：query 的偏移、长度、块表、slot mapping 和 `causal`。",
        fields(FA, "FlashAttentionMetadata", "max_query_len", "query_start_loc", "max_seq_len", "seq_lens", "block_table", "slot_mapping", "causal"),
        ["max_query_len", "query_start_loc", "max_seq_len", "seq_lens", "block_table", "slot_mapping", "causal"]),
    Statement(
        "causal-default", "step",
        "`causal` is true unless the model says otherwise.",
        "除非模型另有说明，`causal` 为真。",
        value(FA, "FlashAttentionMetadata.causal"), True),

    # The inner call.
    Statement(
        "inner-callee", "inner",
        "`forward` calls `flash_attn_varlen_func`.",
        "`forward` 调用 `flash_attn_varlen_func`。",
        callee(FA, "FlashAttentionImpl.forward", "seqused_k"), "flash_attn_varlen_func",
        Now("`forward` calls `_FA4_DENSE_ATTENTION_KERNEL`, which passes everything on to `flash_attn_varlen_func` and adds a warm-up for version 4.",
            "`forward` 调用 `_FA4_DENSE_ATTENTION_KERNEL`，它把参数原样交给 `flash_attn_varlen_func`，并为第 4 版加了预热。",
            ["_FA4_DENSE_ATTENTION_KERNEL", "FA4DenseAttentionKernel()", ["return self.kernel(q=q, k=k, v=v, **kwargs)"],
             ["return flash_attn_varlen_func(*args, **kwargs)"]],
            every(callee(FA, "FlashAttentionImpl.forward", "seqused_k"), value(FA, "_FA4_DENSE_ATTENTION_KERNEL"),
                  code(FA, "FA4DenseAttentionKernel.__call__", "return self.kernel(q=q, k=k, v=v, **kwargs)"),
                  code(FA, "FA4DenseAttentionKernel.kernel", "return flash_attn_varlen_func(*args, **kwargs)")))),
    Statement(
        "inner-keywords", "inner",
        "The keyword arguments of the inner call.",
        "内层调用的关键字参数。",
        call(FA, "FlashAttentionImpl.forward", "seqused_k"),
        ["q", "k", "v", "out", "cu_seqlens_q", "max_seqlen_q", "seqused_k", "max_seqlen_k", "softmax_scale", "causal", "alibi_slopes", "window_size", "block_table",
         "softcap", "scheduler_metadata", "fa_version", "q_descale", "k_descale", "v_descale", "dynamic_causal", "num_splits", "s_aux", "mask_mod", "aux_tensors"]),
    Statement(
        "inner-cache", "inner",
        "Its k and v are views of the cache, not the `key` and `value` of `forward`.",
        "它的 k、v 是缓存的视图，而不是 `forward` 的 `key` 和 `value`。",
        call(FA, "FlashAttentionImpl.forward", "seqused_k", "q", "k", "v", "out"),
        {"q": "query[:num_actual_tokens]", "k": "key_cache", "v": "value_cache", "out": "output[:num_actual_tokens]"}),
    Statement(
        "inner-scale", "inner",
        "`softmax_scale` is the layer's `self.scale`; `causal` and `block_table` are local names.",
        "`softmax_scale` 是本层的 `self.scale`；`causal` 和 `block_table` 是局部变量。",
        call(FA, "FlashAttentionImpl.forward", "seqused_k", "softmax_scale", "causal", "block_table"),
        {"softmax_scale": "self.scale", "causal": "causal", "block_table": "block_table"}),
    Statement(
        "inner-metadata", "inner",
        "Those names, the offsets and the lengths come from the metadata.",
        "这些变量以及偏移和长度都来自元数据。",
        code(FA, "FlashAttentionImpl.forward", "cu_seqlens_q = attn_metadata.query_start_loc", "seqused_k = attn_metadata.seq_lens",
             "max_seqlen_q = attn_metadata.max_query_len", "max_seqlen_k = attn_metadata.max_seq_len", "block_table = attn_metadata.block_table",
             "causal = attn_metadata.causal")),
    Statement(
        "scale-model", "inner",
        "The model sets the scale to 1/√(head size).",
        "模型把缩放设为 1/√(head size)。",
        code(QWEN2, "Qwen2Attention.__init__", "self.scaling = self.head_dim ** -0.5")),
    Statement(
        "scale-layer", "inner",
        "The implementation keeps it as `self.scale`.",
        "实现类把它存为 `self.scale`。",
        code(FA, "FlashAttentionImpl.__init__", "self.scale = float(scale)")),
    Statement(
        "kernels", "inner",
        "Version 2 and 3 are compiled operators, version 4 is a Python function; each is given the block table.",
        "第 2 版和第 3 版是编译好的算子，第 4 版是 Python 函数；三者都收到块表。",
        branches(INTERFACE, "flash_attn_varlen_func", "fa_version", "block_table"),
        {"2": "torch.ops._vllm_fa2_C.varlen_fwd", "3": "torch.ops._vllm_fa3_C.fwd", "4": "_flash_attn_fwd"}),
    Statement(
        "gqa", "inner",
        "Its docstring: k and v may have fewer heads than q, which is GQA.",
        "文档字符串写明：k、v 的头数可以少于 q，这就是 GQA。",
        documented(INTERFACE, "flash_attn_varlen_func", "Supports multi-query and grouped-query attention (MQA/GQA) by passing in K, V with fewer heads than Q.")),
    Statement(
        "kernel-source", "inner",
        "Their source is not in the archive: the build fetches vLLM's fork of flash-attention.",
        "它们的源码不在源码包里：构建时会拉取 vLLM 自己的 flash-attention 仓库（fork）。",
        text("cmake/external_projects/vllm_flash_attn.cmake", r"GIT_REPOSITORY https://github\.com/(\S+?)(?:\.git)?$"), "vllm-project/flash-attention"),
    Statement(
        "alignment", "inner",
        "Its docstring: the causal mask is aligned to the bottom right corner, as a cache needs it.",
        "文档字符串写明：因果掩码按右下角对齐，这正是有缓存时所需要的。",
        documented(INTERFACE, "flash_attn_varlen_func", "If causal=True, the causal mask is aligned to the bottom right corner of the attention matrix.")),
    Statement(
        "masked-rows", "inner",
        "Its docstring: a row that sees no key gives zeros.",
        "文档字符串写明：看不到任何 key 的行输出为零。",
        documented(INTERFACE, "flash_attn_varlen_func", "If the row of the mask is all zero, the output will be zero.")),
    Statement(
        "cascade", "inner",
        "A second branch of `forward`, cascade attention over a prefix that all requests share, does not run here: Model Runner V2 always passes a common prefix of 0.",
        "`forward` 还有第二个分支，即对所有请求共享的前缀做级联注意力（cascade attention），这里不会走到：Model Runner V2 传入的公共前缀长度总是 0。",
        call("vllm/v1/worker/gpu/attn_utils.py", "build_attn_metadata", "common_prefix_len", "common_prefix_len"), {"common_prefix_len": "0"},
        Now("Cascade attention has been removed: `flash_attn.py` no longer contains the word.", "级联注意力已被移除：`flash_attn.py` 中不再出现这个词。",
            [], files_with("cascade", FA))),

    # The hop to PagedAttention.
    Statement(
        "cache-shape", "paged",
        "The cache of a layer has the shape `(num_blocks, num_kv_heads, block_size, 2 * head_size)`.",
        "一层缓存的形状是 `(num_blocks, num_kv_heads, block_size, 2 * head_size)`。",
        returns(FA, "FlashAttentionBackend.get_kv_cache_shape"), ["(num_blocks, num_kv_heads, block_size, 2 * head_size)"],
        Now("The logical shape is the same; `get_kv_cache_shape` has left the backend, and the shape is computed for all backends, its last axis in bytes.",
            "逻辑形状不变；`get_kv_cache_shape` 已离开后端，由所有后端共用的函数计算，最后一维以字节计。",
            ["(num_blocks * blocks_per_page, spec.num_heads, spec.get_num_kernel_states(bs), spec.state_content_size_bytes)"],
            returns("vllm/v1/kv_cache_interface.py", "compute_layer_kv_cache_shape_bytes"))),
    Statement(
        "cache-split", "paged",
        "k and v stand side by side in the last axis; `forward` splits them without a copy.",
        "k 和 v 在最后一维并排存放；`forward` 把它们切开而不复制。",
        code(FA, "FlashAttentionImpl.forward", "key_cache, value_cache = kv_cache.transpose(1, 2).split(self.head_size, dim=-1)")),
    Statement(
        "block-size", "paged",
        "A block holds 16 tokens unless the model or the backend asks for more.",
        "一个块默认容纳 16 个 token，除非模型或后端要求更多。",
        value("vllm/config/cache.py", "CacheConfig.DEFAULT_BLOCK_SIZE"), 16),
    Statement(
        "block-multiple", "paged",
        "FLASH_ATTN takes any multiple of 16.",
        "FLASH_ATTN 接受 16 的任意倍数。",
        returns(FA, "FlashAttentionBackend.get_supported_kernel_block_sizes"), ["[MultipleOf(16)]"],
        Now("FLASH_ATTN takes any multiple of 16, except on XPU and for two version 4 kernels, which fix 64 or 128 tokens.",
            "FLASH_ATTN 接受 16 的任意倍数；例外是 XPU 以及第 4 版的两个 kernel，它们固定为 64 或 128 个 token。",
            [["[MultipleOf(64)]", "[block_size]", "[block_size]", "[MultipleOf(16)]"], ["None", "None", "64", "None"], 128],
            every(returns(FA, "FlashAttentionBackend.get_supported_kernel_block_sizes"), returns(FA, "FlashAttentionBackend._get_sm90_fa4_fp8_kv_block_size"),
                  value(FA_UTILS, "FA4_HD256_PAGE_SIZE")))),
    Statement(
        "blocks-from-pool", "paged",
        "The scheduler asks for blocks when it schedules a request's tokens, and gets them from the front of one queue of free blocks: they need not be neighbours.",
        "调度器在安排一个请求的 token 时申请块，块从同一个空闲块队列的队首取出：它们不必相邻。",
        every(code(SCHEDULER, "Scheduler.schedule", "self.kv_cache_manager.allocate_slots"),
              code("vllm/v1/core/block_pool.py", "BlockPool.get_new_blocks", "self.free_block_queue.popleft_n(num_blocks)")),
        [["self.kv_cache_manager.allocate_slots"], ["self.free_block_queue.popleft_n(num_blocks)"]]),
    Statement(
        "table-rows", "paged",
        "The block table has a row for each request; its entries are block numbers.",
        "块表为每个请求留一行，每个元素是一个块号。",
        code(SLOTS, "BlockTables.__init__", "StagedWriteTensor((self.max_num_reqs, max_num_blocks), dtype=torch.int32, device=device)")),
    Statement(
        "table-lookup", "paged",
        "The block of a token at position i of its request is entry ⌊i / block size⌋ of the request's row (without context parallelism).",
        "请求中位置为 i 的 token 所在的块，是该请求那一行的第 ⌊i / 块大小⌋ 个元素（不使用上下文并行时）。",
        code(SLOTS, "_compute_slot_mappings_kernel", "block_indices = positions // (block_size * CP_SIZE)",
             "block_numbers = tl.load(block_table_ptr + req_state_idx * block_table_stride + block_indices)"), AS_STATED,
        Now("The same lookup; rows of requests that only pad the batch are not read.", "查法相同；仅用来填充批次的请求不再读块表。",
            ["local_positions = positions", "block_indices = tl.where(mapping_enabled, local_positions // kv_block_size, 0)",
             "block_numbers = tl.load(block_table_ptr + req_state_idx * block_table_stride + block_indices, mask=is_local & is_real_req, other=0)"],
            code(SLOTS, "_compute_slot_mappings_kernel", "local_positions = positions", "block_indices = tl.where(mapping_enabled, local_positions // kv_block_size, 0)",
                 "block_numbers = tl.load(block_table_ptr + req_state_idx * block_table_stride + block_indices, mask=is_local & is_real_req, other=0)"))),
    Statement(
        "slot", "paged",
        "The slot of a token is its block's number times the block size plus its place in the block.",
        "一个 token 的 slot 等于块号乘以块大小，再加上块内位置。",
        code(SLOTS, "_compute_slot_mappings_kernel", "slot_ids = block_numbers * block_size + block_offsets"), AS_STATED,
        Now("The same formula; the variable is now called `kv_block_size`.", "公式不变，变量改名为 `kv_block_size`。",
            ["slot_ids = block_numbers * kv_block_size + block_offsets"],
            code(SLOTS, "_compute_slot_mappings_kernel", "slot_ids = block_numbers * kv_block_size + block_offsets"))),
    Statement(
        "runner", "paged",
        "By default a dense model such as Qwen2.5-7B runs on Model Runner V2 (`v1/worker/gpu/`).",
        "Qwen2.5-7B 这样的稠密模型默认运行在 Model Runner V2（`v1/worker/gpu/`）上。",
        evaluated("vllm/config/vllm.py", "VllmConfig.use_v2_model_runner", runner), True),

    # Chunked prefill.
    Statement(
        "chunked-default", "prefill",
        "Chunked prefill is on by default where the model supports it.",
        "只要模型支持，分块预填充（chunked prefill）默认开启。",
        code(ARGS, "EngineArgs._set_default_chunked_prefill_and_prefix_caching_args", "default_chunked_prefill = model_config.is_chunked_prefill_supported",
             "self.enable_chunked_prefill = default_chunked_prefill")),
    Statement(
        "chunked-supported", "prefill",
        "Models that generate text support it, encoder-decoder models excepted.",
        "生成文本的模型都支持，编码器-解码器模型除外。",
        answer("vllm/config/model.py", "ModelConfig.is_chunked_prefill_supported",
               lambda f: {kind: f(Anything(attn_type=kind)) for kind in ("decoder", "encoder_decoder")}, logger=Log()),
        {"decoder": True, "encoder_decoder": False}),
    Statement(
        "budget", "prefill",
        "`vllm serve` computes at most 2048 tokens a step on a 24 GiB card or an A100, 8192 on an H200.",
        "`vllm serve` 每步最多计算的 token 数：24 GiB 的卡或 A100 为 2048，H200 为 8192。",
        token_budget(rtx_4090=("NVIDIA GeForce RTX 4090", 24), a100=("NVIDIA A100-SXM4-80GB", 80), h200=("NVIDIA H200", 140)),
        {"rtx_4090": 2048, "a100": 2048, "h200": 8192}),
    Statement(
        "budget-b200", "prefill",
        "On a B200 it is 8192 too.",
        "B200 上也是 8192。",
        token_budget(b200=("NVIDIA B200", 179)), {"b200": 8192},
        Now("On cards of 160 GiB and more, such as a B200, it is 16384.", "在 160 GiB 及以上的卡（如 B200）上是 16384。",
            {"b200": 16384, "159 GiB": 8192, "160 GiB": 16384},
            token_budget(**{"b200": ("NVIDIA B200", 179), "159 GiB": ("", 159), "160 GiB": ("", 160)}))),
    Statement(
        "budget-limit", "prefill",
        "The line between the two runs at 70 GiB.",
        "两者的分界在 70 GiB。",
        token_budget(**{"69 GiB": ("", 69), "70 GiB": ("", 70)}), {"69 GiB": 2048, "70 GiB": 8192}),
    Statement(
        "budget-gb10", "prefill",
        "A GB10 (DGX Spark), with its 119 GiB, gets 8192.",
        "GB10（DGX Spark）有 119 GiB，也是 8192。",
        token_budget(gb10=("NVIDIA GB10", 119, (12, 1))), {"gb10": 8192},
        Now("A GB10 (DGX Spark) keeps 2048, whatever its memory.", "GB10（DGX Spark）不论显存多大，仍是 2048。", {"gb10": 2048})),
    Statement(
        "budget-flag", "prefill",
        "`--max-num-batched-tokens` sets it.",
        "可用 `--max-num-batched-tokens` 设置。",
        flags(ARGS, "EngineArgs.add_cli_args", "--max-num-batched-tokens"), ["--max-num-batched-tokens"]),
    Statement(
        "budget-throughput", "prefill",
        "`--performance-mode throughput` doubles the default.",
        "`--performance-mode throughput` 会把默认值加倍。",
        code(ARGS, "EngineArgs", "self.performance_mode == 'throughput'", "self.max_num_batched_tokens *= 2")),
    Statement(
        "budget-name", "prefill",
        "That number is `max_num_batched_tokens`; the scheduler starts each step with it.",
        "这个数就是 `max_num_batched_tokens`；调度器每一步以它为起点。",
        code(SCHEDULER, "Scheduler", "self.scheduler_config.max_num_batched_tokens", "token_budget = self.max_num_scheduled_tokens")),
    Statement(
        "new-tokens", "prefill",
        "What a running request still needs is its tokens minus those computed; prompt and generated tokens are treated alike.",
        "一个运行中的请求还需要算的，是它的全部 token 减去已算过的；提示词和生成的 token 一视同仁。",
        code(SCHEDULER, "Scheduler.schedule", "num_new_tokens = request.num_tokens_with_spec + request.num_output_placeholders - request.num_computed_tokens")),
    Statement(
        "budget-cut", "prefill",
        "A request's new tokens are cut to what is left of the budget: S_q of a long prompt is the chunk, S_kv all tokens so far.",
        "一个请求的新 token 数被截到剩余预算：长提示词的 S_q 是这一段的长度，S_kv 是到目前为止的全部 token。",
        code(SCHEDULER, "Scheduler.schedule", "num_new_tokens = min(num_new_tokens, token_budget)"), AS_STATED,
        Now("The same cut, with room kept for draft tokens.", "同样截断，只是为草稿 token 预留了位置。",
            ["num_new_tokens = min(num_new_tokens, token_budget, input_budget - draft_slots)"],
            code(SCHEDULER, "Scheduler.schedule", "num_new_tokens = min(num_new_tokens, token_budget, input_budget - draft_slots)"))),
    Statement(
        "lengths", "prefill",
        "In the metadata the length of a request is what was computed before plus what this step adds.",
        "元数据中一个请求的长度，是此前算过的 token 数加上这一步新增的。",
        code("vllm/v1/worker/gpu/input_batch.py", "_prepare_pos_seq_lens_kernel", "seq_len = num_computed_tokens + query_len")),
    Statement(
        "running-first", "prefill",
        "Running requests, decodes among them, are served before waiting ones; so one call mixes chunks and single tokens.",
        "正在运行的请求（包括正在解码的）先于等待中的请求得到预算；因此一次调用里既有成段的提示词，也有单个 token。",
        code(SCHEDULER, "Scheduler.schedule", "req_index < len(self.running) and token_budget > 0", "(self.waiting or self.skipped_waiting) and token_budget > 0"), AS_STATED,
        Now("The same order; the loop over waiting requests is written differently.", "顺序不变；等待请求的循环换了写法。",
            ["req_index < len(self.running) and token_budget > 0", "token_budget > 0"],
            code(SCHEDULER, "Scheduler.schedule", "req_index < len(self.running) and token_budget > 0", "token_budget > 0"))),

    # What the process around it fixes.
    Statement(
        "torch", "process",
        "The CUDA build pins PyTorch 2.11.0.",
        "CUDA 版固定 PyTorch 2.11.0。",
        text("requirements/cuda.txt", r"^torch==(\S+)"), "2.11.0",
        Now("The CUDA build pins PyTorch 2.14.0.", "CUDA 版固定 PyTorch 2.14.0。", "2.14.0")),
    Statement(
        "cudnn-off", "process",
        "Loading the CUDA platform switches cuDNN's SDPA kernel off in the process.",
        "加载 CUDA 平台时会在进程内关闭 cuDNN 的 SDPA kernel。",
        code(CUDA, "", "torch.backends.cuda.enable_cudnn_sdp(False)")),

    # Context parallelism: one sequence on several GPUs.
    Statement(
        "dcp-flag", "context",
        "Decode context parallelism is `--decode-context-parallel-size`, short `-dcp`.",
        "解码阶段的上下文并行参数是 `--decode-context-parallel-size`，简写 `-dcp`。",
        flags(ARGS, "EngineArgs.add_cli_args", "--decode-context-parallel-size"), ["--decode-context-parallel-size", "-dcp"]),
    Statement(
        "dcp-ranks", "context",
        "It takes no GPUs of its own: it reuses those of tensor parallelism, whose number it must divide (without prefill context parallelism).",
        "它不另占 GPU，而是复用张量并行的 GPU，并且必须整除张量并行的规模（未启用预填充上下文并行时）。",
        raises(PARALLEL, "ParallelConfig._validate_parallel_config", " must be divisible by dcp_size="),
        {"when": ["pcp == 1", "tp % dcp != 0"], "raises": "ValueError"}),
    Statement(
        "dcp-queries", "context",
        "In FLASH_ATTN the keys stay where they are: the ranks gather the queries, and each attends to its part of the cache.",
        "在 FLASH_ATTN 里 key 留在原处：各 rank 收集 query，再各自对自己那部分缓存做注意力。",
        code(FA, "FlashAttentionImpl._forward_with_dcp", "query_across_dcp = get_dcp_group().all_gather(query, dim=1)")),
    Statement(
        "dcp-merge", "context",
        "The parts are combined by their LSE across the ranks, then merged with attention over the new tokens.",
        "各部分先按 LSE 跨 rank 合并，再与对新 token 的注意力合并。",
        code(FA, "FlashAttentionImpl._forward_with_dcp",
             "self.dcp_combine(context_attn_out, context_lse.transpose(0, 1), get_dcp_group(), return_lse=True)",
             "merge_attn_states(output, context_attn_out_cor, context_lse_cor, query_attn_out, query_lse)")),
    Statement(
        "pcp-flag", "context",
        "Prefill context parallelism is `--prefill-context-parallel-size`, short `-pcp`.",
        "预填充阶段的上下文并行参数是 `--prefill-context-parallel-size`，简写 `-pcp`。",
        flags(ARGS, "EngineArgs.add_cli_args", "--prefill-context-parallel-size"), ["--prefill-context-parallel-size", "-pcp"]),
    Statement(
        "pcp-support", "context",
        "An attention implementation does not support prefill context parallelism unless it says so; the base class of MLA says so.",
        "注意力实现默认不支持预填充上下文并行，除非自己声明；MLA 的基类做了声明。",
        every(value(BACKEND, "AttentionImplBase.supports_pcp"), value(BACKEND, "MLAAttentionImpl.supports_pcp")), [False, True]),
    Statement(
        "pcp-refused", "context",
        "A backend without that support is refused when prefill context parallelism is on.",
        "启用预填充上下文并行时，不支持它的后端会被拒绝。",
        code(BACKEND, "AttentionBackend.validate_configuration", "use_pcp and not cls.supports_pcp()")),
    # The same request in another batch.
    Statement(
        "batch-switch", "batch",
        "`VLLM_BATCH_INVARIANT` is off; `VLLM_BATCH_INVARIANT=1` turns it on.",
        "`VLLM_BATCH_INVARIANT` 默认关闭；设 `VLLM_BATCH_INVARIANT=1` 才启用。",
        code("vllm/envs.py", "", 'bool(int(os.getenv("VLLM_BATCH_INVARIANT", "0")))')),
    Statement(
        "batch-splits", "batch",
        "With it FLASH_ATTN never cuts the keys: the number of splits is 1.",
        "启用后，FLASH_ATTN 不再切分 key：切分数固定为 1。",
        code(FA, "FlashAttentionMetadataBuilder.build", "if envs.VLLM_BATCH_INVARIANT:\n    max_num_splits = 1")),
    Statement(
        "batch-schedule", "batch",
        "It also drops the schedule that is made ahead of the step, which follows the longest lengths of the batch.",
        "它还会停用提前算好的调度，因为那份调度取决于批里的最大长度。",
        code(FA, "FlashAttentionMetadataBuilder.build", "aot_schedule = self.aot_schedule and not fast_build and not envs.VLLM_BATCH_INVARIANT")),
    Statement(
        "batch-linear", "batch",
        "An unquantised linear layer then takes a product of vLLM's own, with tiles that do not follow the batch.",
        "未量化的线性层改用 vLLM 自带的矩阵乘，分块不随批变化。",
        code("vllm/model_executor/layers/linear.py", "UnquantizedLinearMethod.apply", "linear_batch_invariant(x, layer.weight, bias)")),
    Statement(
        "batch-backends", "batch",
        "A backend that does not declare support is refused; FLASH_ATTN declares it.",
        "没有声明支持的后端会被拒绝；FLASH_ATTN 做了声明。",
        every(code(BACKEND, "AttentionBackend.validate_configuration", "use_batch_invariant and not cls.supports_batch_invariance()"), returns(FA, "FlashAttentionBackend.supports_batch_invariance")),
        [["use_batch_invariant and not cls.supports_batch_invariance()"], ["True"]]),
    Statement(
        "batch-products", "batch",
        "Every other product stays with cuBLAS on Hopper and Blackwell; an empty workspace keeps it from splitting K.",
        "在 Hopper 和 Blackwell 上，其余矩阵乘仍由 cuBLAS 计算；不给它工作区，它就无法切分 K。",
        code("vllm/model_executor/layers/batch_invariant.py", "enable_batch_invariant_mode", 'os.environ["CUBLASLT_WORKSPACE_SIZE"] = "1"'), AS_STATED,
        Now(find=code("vllm/model_executor/determinism/batch_invariant.py", "enable_batch_invariant_mode", 'os.environ["CUBLASLT_WORKSPACE_SIZE"] = "1"'))),
]

