"""``torchair.CompilerConfig``: every group and option of GE mode, and the old spelling of those of capture mode.

Names, allowed values and defaults are upstream's interface; a description that ends in "Ours." marks an addition.
"""

# ruff: noqa: RUF009  the calls in the class bodies declare fields

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import attrs

from torchair.config.encoding import (
    ALWAYS_GRAPH,
    ALWAYS_PROCESS,
    as_given,
    digit,
    jit_code,
    real_path,
    sorting_code,
    static_ops_limit,
    word,
)
from torchair.config.option import OptionGroup, Scope, Setting, group, option
from torchair.config.rules import (
    INT64_MAX,
    CallableRule,
    Choice,
    DictRule,
    EngineName,
    ExistingDirectory,
    ExistingFile,
    Flag,
    GraphPool,
    IntList,
    IntRange,
    JsonFile,
    PathText,
    Pattern,
    Text,
    TextList,
)

__all__ = ["CompilerConfig"]

_ge = partial(option, modes="ge")
_capture = partial(option, scope=Scope.GRAPH, modes="capture")
_graph = partial(option, scope=Scope.GRAPH, modes="ge")
_process = partial(option, scope=Scope.PROCESS, modes="ge")

_ITERATION = r"[0-9]{1,18}(?:-[0-9]{1,18})?"
_ITERATIONS = Pattern(
    rf"(?:{_ITERATION}(?:\|{_ITERATION})*)?",
    "iterations and ranges of them, separated by '|'; empty for all",
    "0|3-5|10",
)
_LAYER = r'[0-9a-zA-Z_"/\\.]+'
_LAYERS = Pattern(
    rf"(?:{_LAYER}(?: +{_LAYER})*)?",
    'names made of 0-9 a-z A-Z _ " / \\ . that are separated by spaces; empty for all',
    "Add_1 MatMulV2",
)

_REDUCE_OVERHEAD = 'to capture and replay, use torch.compile(model, backend="npugraph_ex")'

#: Engine strings that are sent only while the dump is on.
_DUMP_STRINGS = frozenset(
    {"ge.exec.enableDump", "ge.exec.dumpPath"} | {f"ge.exec.dump{part}" for part in ("Mode", "Step", "Layer", "Data")}
)


class _Group(OptionGroup):
    """A group somewhere in :class:`CompilerConfig`."""

    __slots__ = ()

    @classmethod
    def _elsewhere(cls, name: str) -> list[str]:
        paths = (found.path for found in CompilerConfig().walk())
        return [path for path in paths if path.rpartition(".")[2] == name]


@attrs.define(init=False, repr=False)
class GraphDump(_Group):
    """Files with the Ascend IR graph, as converted and as optimized."""

    group_path: ClassVar[str] = "config.debug.graph_dump"

    type: Setting[str | None] = _ge(Choice(("txt", "pbtxt", "py")), None, "File type of the dump; unset means no dump.")
    path: Setting[str | None] = _ge(PathText(), None, "Directory of the dump; unset means the current directory.")


@attrs.define(init=False, repr=False)
class DataDump(_Group):
    """Inputs and outputs of FX nodes, from an eager run of the FX graph."""

    group_path: ClassVar[str] = "config.debug.data_dump"

    type: Setting[str | None] = option(Choice(("npy",)), None, "File type of the dump; unset means no dump.")
    path: Setting[str | None] = option(PathText(), None, "Directory of the dump; unset means the current directory.")
    filter: Setting[Callable[..., Any] | None] = option(
        CallableRule(), None, "Given an FX node, returns it to have it dumped, or None to leave it out."
    )


@attrs.define(init=False, repr=False)
class FxSummary(_Group):
    """Table of the FX graph's operators and whether they can be converted."""

    group_path: ClassVar[str] = "config.debug.fx_summary"

    type: Setting[str | None] = _ge(Choice(("csv",)), None, "File type of the table; unset means none.")
    skip_compile: Setting[bool] = _ge(
        Flag(), True, "Run the FX graph eagerly after the table is written, without compiling."
    )


@attrs.define(init=False, repr=False)
class DebugAclgraph(_Group):
    """Old spelling of capture mode's options; each names the present one."""

    group_path: ClassVar[str] = "config.debug.aclgraph"

    disable_reinplace_inplaceable_ops_pass: Setting[bool] = _capture(
        Flag(), False, "The opposite of npugraph_ex's inplace_pass."
    )
    disable_reinplace_input_mutated_ops_pass: Setting[bool] = _capture(
        Flag(), False, "The opposite of npugraph_ex's input_inplace_pass."
    )
    disable_mempool_reuse_in_same_fx: Setting[bool] = _capture(
        Flag(), False, "The opposite of npugraph_ex's reuse_graph_pool_in_same_fx."
    )
    static_capture_size_limit: Setting[int] = _capture(IntRange(1), 64, "npugraph_ex's capture_limit.")
    clone_input: Setting[bool] = _capture(Flag(), True, "npugraph_ex's clone_input.")
    enable_output_clone: Setting[bool | None] = _capture(Flag(), None, "npugraph_ex's clone_output.")
    remove_cat_ops: Setting[bool] = _capture(Flag(), True, "npugraph_ex's remove_cat_ops.")


@attrs.define(init=False, repr=False)
class Debug(_Group):
    """Aids to find out what is wrong."""

    group_path: ClassVar[str] = "config.debug"

    graph_dump: GraphDump = group(GraphDump)
    data_dump: DataDump = group(DataDump)
    fx_summary: FxSummary = group(FxSummary)
    aclgraph: DebugAclgraph = group(DebugAclgraph)
    run_eagerly: Setting[bool] = option(Flag(), False, "Run the optimized FX graph eagerly, without an engine.")
    deadlock_check: Setting[bool] = option(
        Flag(), False, "Look for streams that could wait for each other forever.", scope=Scope.GRAPH
    )
    device_semantics: Setting[bool] = option(
        Flag(), False, "Let a CPU run behave as a device graph: static outputs, address keys, copies back. Ours."
    )
    verify_every: Setting[int] = option(
        IntRange(0), 0, "Run every k-th call eagerly as well and compare; 0 means never. Ours."
    )
    verify_custom_ops: Setting[bool] = option(
        Flag(), False, "Compare what custom operators return at the first call with what they promised. Ours."
    )
    verify_graphs: Setting[bool] = _ge(Flag(), False, "Verify the IR graph after each pass. Ours.")
    pass_fuel: Setting[int | None] = option(
        IntRange(0), None, "Stop optimizing after this many passes that changed something; unset means never. Ours."
    )
    disabled_passes: Setting[list[str]] = option(TextList(), [], "Names of passes to leave out. Ours.")


@attrs.define(init=False, repr=False)
class ExportExperimental(_Group):
    """Options of ``dynamo_export`` that may change."""

    group_path: ClassVar[str] = "config.export.experimental"

    auto_atc_config_generated: Setting[bool] = _ge(
        Flag(), False, "Write templates of the vendor compiler's configuration for several ranks."
    )
    enable_record_nn_module_stack: Setting[bool] = _ge(
        Flag(), False, "Write the module stack of each node into the exported graph."
    )
    enable_lite_export: Setting[bool] = _ge(Flag(), False, "Prefer converters for lite targets.")


@attrs.define(init=False, repr=False)
class Export(_Group):
    """Export; the options of this group itself are set by ``dynamo_export``."""

    group_path: ClassVar[str] = "config.export"

    experimental: ExportExperimental = group(ExportExperimental)
    export_mode: Setting[bool] = _ge(Flag(), False, "Whether an export is going on.")
    export_path_dir: Setting[str | None] = _ge(Text(), None, "Directory of the export.")
    export_name: Setting[str | None] = _ge(Text(), None, "Name of the exported file.")
    weight_name: Setting[dict[Any, Any] | None] = _ge(DictRule(), None, "Names of the weights.")
    inputs_name: Setting[dict[Any, Any] | None] = _ge(DictRule(), None, "Names of the inputs.")


@attrs.define(init=False, repr=False)
class DumpConfig(_Group):
    """Data dump of compiled graphs."""

    group_path: ClassVar[str] = "config.dump_config"

    enable_dump: Setting[bool] = _process(
        Flag(),
        False,
        "Write inputs and outputs of operators to files.",
        "ge.exec.enableDump",
        digit,
        modes="ge capture",
    )
    dump_path: Setting[str] = _process(
        ExistingDirectory(), "./", "Directory of the dump.", "ge.exec.dumpPath", real_path, modes="ge capture"
    )
    dump_mode: Setting[str] = _process(
        Choice(("input", "output", "all")), "all", "What is dumped of an operator.", "ge.exec.dumpMode", as_given
    )
    quant_dumpable: Setting[bool] = _process(
        Flag(),
        False,
        "Keep tensors from before a quantization, so that they can be dumped.",
        "ge.quant_dumpable",
        digit,
    )
    dump_step: Setting[str] = _process(_ITERATIONS, "", "Iterations that are dumped.", "ge.exec.dumpStep", as_given)
    dump_layer: Setting[str] = _process(_LAYERS, "", "Operators that are dumped.", "ge.exec.dumpLayer", as_given)
    dump_data: Setting[str] = _process(
        Choice(("tensor", "stats")), "tensor", "Dump values, or a table of statistics.", "ge.exec.dumpData", as_given
    )
    dump_config_path: Setting[str | None] = _process(
        JsonFile(), None, "JSON file that says what is dumped.", "ge_dump_with_acl_config", real_path
    )
    data_dump_stage: Setting[str] = _capture(
        Choice(("original", "optimized")), "optimized", "Which FX graph is dumped in capture mode."
    )


@attrs.define(init=False, repr=False)
class FusionConfig(_Group):
    """Switches of fusion passes in a file."""

    group_path: ClassVar[str] = "config.fusion_config"

    fusion_switch_file: Setting[str | None] = _process(
        ExistingFile(), None, "JSON file that turns passes on and off.", "ge.fusionSwitchFile", real_path
    )


@attrs.define(init=False, repr=False)
class ExperimentalAclgraph(_Group):
    """Old spelling of capture mode's options for static kernels and super kernels."""

    group_path: ClassVar[str] = "config.experimental_config.aclgraph"

    _aclnn_static_shape_kernel: Setting[bool] = _capture(Flag(), False, "npugraph_ex's static_kernel_compile.")
    disable_static_kernel_compile_cache: Setting[bool] = _capture(
        Flag(), False, "The option of npugraph_ex of that name."
    )
    super_kernel_optimize: Setting[bool] = _capture(Flag(), False, "The option of npugraph_ex of that name.")
    super_kernel_optimize_options: Setting[dict[str, Any] | None] = _capture(
        DictRule(), None, "The option of npugraph_ex of that name."
    )
    super_kernel_debug_options: Setting[dict[str, Any] | None] = _capture(
        DictRule(), None, "The option of npugraph_ex of that name."
    )
    _vllm_aclnn_static_kernel_sym_index: Setting[int] = _capture(
        IntRange(0), 0, "The option of npugraph_ex of that name."
    )
    _vllm_aclnn_static_kernel_sym_range: Setting[list[int] | None] = _capture(
        IntList(), None, "The option of npugraph_ex of that name."
    )


@attrs.define(init=False, repr=False)
class ExperimentalConfig(_Group):
    """Options that upstream calls experimental; most of those that matter are here."""

    group_path: ClassVar[str] = "config.experimental_config"

    aclgraph: ExperimentalAclgraph = group(ExperimentalAclgraph)
    cc_parallel_enable: Setting[bool] = _process(
        Flag(), False, "Split all-reduce so that it overlaps with computation.", "ge.exec.enableEngineParallel", digit
    )
    frozen_parameter: Setting[bool] = _graph(
        Flag(),
        False,
        "Promise that parameters keep their addresses; in GE mode, what depends on them alone is computed once.",
        "frozen_parameter",
        digit,
        modes="ge capture",
    )
    static_model_ops_lower_limit: Setting[int | None] = _graph(
        IntRange(-1, INT64_MAX),
        None,
        "Least number of operators of a static part of a dynamic graph; -1: no parts.",
        "ge.exec.static_model_ops_lower_limit",
        static_ops_limit,
    )
    jit_compile: Setting[str] = _graph(
        Choice(("auto",)), "auto", "How operators are compiled.", "ge.jit_compile", jit_code
    )
    topology_sorting_strategy: Setting[str] = _graph(
        Choice(("BFS", "DFS", "RDFS", "StableRDFS")),
        "DFS",
        "How the order of execution is found.",
        "ge.topoSortingMode",
        sorting_code,
    )
    enable_ref_data: Setting[bool] = _ge(Flag(), False, "Convert inputs that are written to RefData.")
    enable_view_optimize: Setting[bool] = _ge(Flag(), True, "Optimize chains of views.")
    remove_noop_ops: Setting[bool] = option(Flag(), True, "Remove operators that change nothing.")
    pattern_fusion_pass: Setting[bool] = option(Flag(), True, "Replace known groups of operators by fused ones.")
    tiling_schedule_optimize: Setting[bool] = _graph(
        Flag(), False, "Compute tiling that depends on values on the device.", "ge.tiling_schedule_optimize", digit
    )
    keep_inference_input_mutations: Setting[bool] = option(
        Flag(), True, "Keep writes to inputs inside the inference graph."
    )
    memory_efficiency: Setting[bool] = _graph(
        Flag(), False, "Let memory of feature maps change between runs.", "ge.featureBaseRefreshable", digit
    )
    npu_fx_pass: Setting[bool] = option(Flag(), False, "Fuse operators of training graphs.")
    aot_config_enable_joint_graph: Setting[bool] = option(Flag(), False, "Use one graph for forward and backward.")
    aot_config_output_loss_index: Setting[int] = option(IntRange(0), 0, "Which output of the joint graph is the loss.")
    unconverted_ops: Setting[str] = _ge(
        Choice(("run", "error")), "run", "What happens to an operator without Ascend IR form. Ours."
    )
    require_prototype: Setting[bool] = _ge(
        Flag(), False, "Refuse custom operators whose IR prototype nobody declared, as a device does. Ours."
    )


@attrs.define(init=False, repr=False)
class InferenceConfig(_Group):
    """Options of inference."""

    group_path: ClassVar[str] = "config.inference_config"

    dynamic_gears_merge_policy: Setting[str] = _ge(
        Choice(("zip", "product")), "zip", "How gears of several dimensions are combined."
    )


@attrs.define(init=False, repr=False)
class GeConfig(_Group):
    """Options of the engine."""

    group_path: ClassVar[str] = "config.ge_config"

    enable_single_stream: Setting[bool] = _process(
        Flag(), False, "Run static graphs on one stream.", "ge.enableSingleStream", word
    )
    oo_level: Setting[str] = _process(Choice(("O1", "O3")), "O3", "How much is optimized.", "ge.oo.level", as_given)
    oo_constant_folding: Setting[bool | None] = _process(
        Flag(), None, "Fold constants; unset means as the level says.", "ge.oo.constantFolding", word
    )
    oo_dead_code_elimination: Setting[bool | None] = _process(
        Flag(),
        None,
        "Remove branches that are never taken; unset means as the level says.",
        "ge.oo.deadCodeElimination",
        word,
    )
    export_compile_stat: Setting[str] = _process(
        Choice(("0", "1", "2")),
        "2",
        "When the passes' statistics are written: never, at exit, after each compile.",
        "ge.exportCompileStat",
        as_given,
    )
    aicore_num: Setting[str | None] = _process(
        Text(), None, 'Cores that operators may use, "${aicore}|${vectorcore}".', "ge.aicoreNum", as_given
    )
    optimization_switch: Setting[str | None] = _process(
        Text(), None, 'Turns passes on and off, "PassA:on;PassB:off".', "ge.optimizationSwitch", as_given
    )


@attrs.define(init=False, repr=False)
class AoeConfig(_Group):
    """Operator tuning by a vendor tool."""

    group_path: ClassVar[str] = "config.aoe_config"

    aoe_mode: Setting[str | None] = _ge(Choice(("2",)), None, "Kind of tuning; unset means none.")
    work_path: Setting[str] = _ge(ExistingDirectory(), "./", "Directory of the tuning.")
    aoe_config_file: Setting[str | None] = _ge(ExistingFile(), None, "Configuration of the tuning.")


@attrs.define(init=False, repr=False)
class AclgraphConfig(_Group):
    """Old spelling of capture mode's memory options."""

    group_path: ClassVar[str] = "config.aclgraph_config"

    use_custom_pool: Setting[tuple[int, int] | None] = _capture(GraphPool(), None, "npugraph_ex's use_graph_pool.")


@attrs.define(init=False, repr=False)
class CompilerConfig(_Group):
    """How a graph is compiled: ``config = CompilerConfig(); config.debug.run_eagerly = True``.

    Reading an option gives an :class:`~torchair.config.option.Option`, which is as true or false as its value and equal
    to it. Two configurations are equal when all their options are.
    """

    group_path: ClassVar[str] = "config"

    mode: Setting[str] = option(
        Choice(("max-autotune", "reduce-overhead", "npugraph_ex")),
        "max-autotune",
        "GE mode, or capture and replay.",
        deprecated=(("reduce-overhead", _REDUCE_OVERHEAD),),
    )
    engine: Setting[str] = _ge(
        EngineName(), "auto", "What runs the Ascend IR graph; native: C++ of its own, see native-engine.md. Ours."
    )
    post_grad_custom_pre_pass: Setting[Callable[..., Any] | None] = option(
        CallableRule(),
        None,
        "Edits the FX graph in place before the built-in passes: fn(gm, example_inputs, config), result ignored.",
    )
    post_grad_custom_post_pass: Setting[Callable[..., Any] | None] = option(
        CallableRule(),
        None,
        "Edits the FX graph in place after the built-in passes: fn(gm, example_inputs, config), result ignored.",
    )
    debug: Debug = group(Debug)
    export: Export = group(Export)
    dump_config: DumpConfig = group(DumpConfig)
    fusion_config: FusionConfig = group(FusionConfig)
    experimental_config: ExperimentalConfig = group(ExperimentalConfig)
    inference_config: InferenceConfig = group(InferenceConfig)
    ge_config: GeConfig = group(GeConfig)
    aoe_config: AoeConfig = group(AoeConfig)
    aclgraph_config: AclgraphConfig = group(AclgraphConfig)

    @property
    def captures(self) -> bool:
        """Whether the mode is capture and replay, by its present or its old name."""
        return self.mode.raw != "max-autotune"

    def as_dict(self, rank_directory: str = "worldsize1_global_rank0") -> tuple[dict[str, str], dict[str, str]]:
        """Return the engine strings of this configuration (specification, appendix 1).

        Args:
            rank_directory: What is appended to the dump path, so that ranks do not write the same files.

        Returns:
            Those of the graph, and those of the process. Options that the mode ignores have none.
        """
        graph = {} if self.captures else dict(ALWAYS_GRAPH)
        process = {} if self.captures else dict(ALWAYS_PROCESS)
        dump = self.dump_config
        for item in self.walk():
            spec = item.spec
            if spec.encode is None or ("capture" if self.captures else "ge") not in spec.modes:
                continue
            if spec.engine in _DUMP_STRINGS and (self.captures or not dump.enable_dump):
                continue
            if (text := spec.encode(item.raw)) is not None:
                (process if spec.scope is Scope.PROCESS else graph)[spec.engine] = text
        if dump.enable_dump:
            directory = str(Path(dump.dump_path.raw).resolve() / rank_directory)
            if self.captures:
                graph["aclgraph.enableDump"] = "1"
                graph["aclgraph.dumpPath"] = directory
                graph["aclgraph.dumpStage"] = dump.data_dump_stage.raw
            else:
                process["ge.exec.dumpPath"] = directory
        if not self.captures and self.ge_config.oo_level == "O1":
            graph["ge.topoSortingMode"] = sorting_code("StableRDFS")
        return graph, process
