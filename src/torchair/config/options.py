"""What the rest of the system reads of a configuration: plain frozen values, with a text that goes into cache keys.

A :class:`CompilerConfig` can change until the first compile; each compile takes one :class:`Options` of it. Fields have
the names of the options that they come from.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from torchair.config.compiler_config import CompilerConfig
from torchair.config.digest import code_digest
from torchair.config.npugraph_ex_config import NpuGraphExConfig, from_old_spelling
from torchair.config.texts import (
    check_iterations,
    parse_core_numbers,
    parse_switches,
    super_kernel_pairs,
    warn_unknown_passes,
)
from torchair.config.without_effect import log_without_effect
from torchair.errors import ConfigFileNotFoundError

__all__ = [
    "AoeOptions",
    "CaptureOptions",
    "DataDumpOptions",
    "DumpOptions",
    "ExportOptions",
    "FxSummaryOptions",
    "GraphDumpOptions",
    "InputFile",
    "Options",
    "UserFunction",
]

Pairs = tuple[tuple[str, str], ...]

SINGLE_RANK = "worldsize1_global_rank0"
"""Part of dump paths where ``torch.distributed`` is not initialized."""


@dataclass(frozen=True, slots=True, eq=False)
class UserFunction:
    """A function that the user gave us, with the digest of its code; calling it calls the function."""

    function: Callable[..., Any]
    digest: str

    @classmethod
    def of(cls, function: Callable[..., Any] | None) -> UserFunction | None:
        """Wrap a function; None stays None."""
        return None if function is None else cls(function, code_digest(function))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserFunction) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that a compile reads, with the digest of its content: a key with the path alone would miss an edit."""

    path: str
    digest: str

    @classmethod
    def of(cls, path: str | None, option: str) -> InputFile | None:
        """Take the file as it is now; None stays None.

        Raises:
            ConfigFileNotFoundError: The file cannot be read any more.
        """
        if path is None:
            return None
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            why = [f"{option} = {path!r}", str(error)]
            raise ConfigFileNotFoundError("The file that an option names cannot be read", why=why) from error
        return cls(os.path.realpath(path), hashlib.sha256(content).hexdigest()[:32])


@dataclass(frozen=True, slots=True)
class GraphDumpOptions:
    """``debug.graph_dump``; no dump while ``type`` is None, the current directory while ``path`` is."""

    type: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class DataDumpOptions:
    """``debug.data_dump``; no dump while ``type`` is None, the current directory while ``path`` is."""

    type: str | None = None
    path: str | None = None
    filter: UserFunction | None = None


@dataclass(frozen=True, slots=True)
class FxSummaryOptions:
    """``debug.fx_summary``; no table while ``type`` is None."""

    type: str | None = None
    skip_compile: bool = True


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """``dump_config``, and the data dump of capture mode; ``dump_path`` is a real path while the dump is on."""

    enable_dump: bool = False
    dump_path: str = "./"
    dump_mode: str = "all"
    quant_dumpable: bool = False
    dump_step: str = ""
    dump_layer: str = ""
    dump_data: str = "tensor"
    dump_config_path: InputFile | None = None
    data_dump_stage: str = "optimized"


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """``export``; names of weights and inputs as pairs, since dictionaries have no hash."""

    export_mode: bool = False
    export_path_dir: str | None = None
    export_name: str | None = None
    weight_name: Pairs = ()
    inputs_name: Pairs = ()
    auto_atc_config_generated: bool = False
    enable_record_nn_module_stack: bool = False
    enable_lite_export: bool = False


@dataclass(frozen=True, slots=True)
class AoeOptions:
    """``aoe_config``; no tuning while ``aoe_mode`` is None."""

    aoe_mode: str | None = None
    work_path: str = "./"
    aoe_config_file: InputFile | None = None


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """What only capture mode reads, by the names of its flat configuration."""

    force_recapture: bool = False
    capture_limit: int = 64
    clone_input: bool = True
    clone_output: bool | None = None
    use_graph_pool: tuple[int, int] | None = None
    reuse_graph_pool_in_same_fx: bool = True
    capture_error_mode: str = "global"
    inplace_pass: bool = True
    input_inplace_pass: bool = True
    remove_cat_ops: bool = True
    static_kernel_compile: bool = False
    disable_static_kernel_compile_cache: bool = False
    super_kernel_optimize: bool = False
    super_kernel_optimize_options: Pairs = ()
    super_kernel_debug_options: Pairs = ()
    static_kernel_sym_index: int = 0
    static_kernel_sym_range: tuple[int, ...] | None = None

    @property
    def native_code(self) -> str:
        """The option that asks for native programs in the captured graph; empty where none does."""
        if self.static_kernel_compile:
            return "static_kernel_compile"
        return "super_kernel_optimize" if self.super_kernel_optimize else ""


def _default_strings(index: int) -> Pairs:
    return tuple(CompilerConfig().as_dict()[index].items())


@dataclass(frozen=True, slots=True)
class Options:
    """One configuration as a compile sees it.

    Attributes:
        mode: ``"max-autotune"`` or ``"npugraph_ex"``.
        aicore_num: Most cube and most vector cores that operators may use; None where there is no limit.
        optimization_switch: Passes that are switched on or off by name.
        oo_constant_folding: Whether constants are folded, whatever said so.
        oo_dead_code_elimination: Whether branches that are never taken are removed, whatever said so.
        static_model_ops_lower_limit: -1, at least 2, or None for the engine's choice.
        graph_strings: Engine strings of the graph (specification, appendix 1).
        process_strings: Engine strings of the process.
    """

    mode: str = "max-autotune"
    engine: str = "auto"
    run_eagerly: bool = False
    post_grad_custom_pre_pass: UserFunction | None = None
    post_grad_custom_post_pass: UserFunction | None = None

    unconverted_ops: str = "run"
    require_prototype: bool = False
    frozen_parameter: bool = False
    enable_ref_data: bool = False
    enable_view_optimize: bool = True
    remove_noop_ops: bool = True
    pattern_fusion_pass: bool = True
    keep_inference_input_mutations: bool = True
    npu_fx_pass: bool = False
    aot_config_enable_joint_graph: bool = False
    aot_config_output_loss_index: int = 0

    device_semantics: bool = False
    verify_every: int = 0
    verify_custom_ops: bool = False
    verify_graphs: bool = False
    pass_fuel: int | None = None
    disabled_passes: tuple[str, ...] = ()
    deadlock_check: bool = False
    graph_dump: GraphDumpOptions = GraphDumpOptions()
    data_dump: DataDumpOptions = DataDumpOptions()
    fx_summary: FxSummaryOptions = FxSummaryOptions()
    dump: DumpOptions = DumpOptions()

    static_model_ops_lower_limit: int | None = None
    jit_compile: str = "auto"
    topology_sorting_strategy: str = "DFS"
    cc_parallel_enable: bool = False
    tiling_schedule_optimize: bool = False
    memory_efficiency: bool = False
    dynamic_gears_merge_policy: str = "zip"
    enable_single_stream: bool = False
    oo_level: str = "O3"
    oo_constant_folding: bool = True
    oo_dead_code_elimination: bool = True
    export_compile_stat: str = "2"
    aicore_num: tuple[int | None, int | None] = (None, None)
    optimization_switch: tuple[tuple[str, bool], ...] = ()
    fusion_switch_file: InputFile | None = None

    export: ExportOptions = ExportOptions()
    aoe: AoeOptions = AoeOptions()
    capture: CaptureOptions = CaptureOptions()
    graph_strings: Pairs = field(default_factory=lambda: _default_strings(0))
    process_strings: Pairs = field(default_factory=lambda: _default_strings(1))

    @property
    def captures(self) -> bool:
        """Whether graphs are captured and replayed, and not converted to Ascend IR."""
        return self.mode == "npugraph_ex"

    @classmethod
    def from_config(cls, config: CompilerConfig, *, rank_directory: str = SINGLE_RANK) -> Options:
        """Take the values of a configuration, and check the texts that assignment does not check.

        Args:
            config: The configuration; it is not changed.
            rank_directory: What is appended to the dump path, so that ranks do not write the same files.

        Raises:
            ConfigValueError: A text (``aicore_num``, ``optimization_switch``, ``dump_step``, options of super
                kernels) cannot be read.
            ConfigFileNotFoundError: A file was removed since its path was assigned.
        """
        log_without_effect(config)
        debug, experimental, ge = config.debug, config.experimental_config, config.ge_config
        limit = experimental.static_model_ops_lower_limit
        if limit.raw in {0, 1}:
            warnings.warn(f"{limit.path} = {limit.raw} is not supported and acts as 2", UserWarning, stacklevel=2)
        graph_strings, process_strings = config.as_dict(rank_directory)
        return cls(
            mode="npugraph_ex" if config.captures else "max-autotune",
            engine=config.engine.raw,
            run_eagerly=debug.run_eagerly.raw,
            post_grad_custom_pre_pass=UserFunction.of(config.post_grad_custom_pre_pass.raw),
            post_grad_custom_post_pass=UserFunction.of(config.post_grad_custom_post_pass.raw),
            unconverted_ops=experimental.unconverted_ops.raw,
            require_prototype=experimental.require_prototype.raw,
            frozen_parameter=experimental.frozen_parameter.raw,
            enable_ref_data=experimental.enable_ref_data.raw,
            enable_view_optimize=experimental.enable_view_optimize.raw,
            remove_noop_ops=experimental.remove_noop_ops.raw,
            pattern_fusion_pass=experimental.pattern_fusion_pass.raw,
            keep_inference_input_mutations=experimental.keep_inference_input_mutations.raw,
            npu_fx_pass=experimental.npu_fx_pass.raw,
            aot_config_enable_joint_graph=experimental.aot_config_enable_joint_graph.raw,
            aot_config_output_loss_index=experimental.aot_config_output_loss_index.raw,
            device_semantics=debug.device_semantics.raw,
            verify_every=debug.verify_every.raw,
            verify_custom_ops=debug.verify_custom_ops.raw,
            verify_graphs=debug.verify_graphs.raw,
            pass_fuel=debug.pass_fuel.raw,
            disabled_passes=tuple(debug.disabled_passes.raw),
            deadlock_check=debug.deadlock_check.raw,
            graph_dump=GraphDumpOptions(debug.graph_dump.type.raw, debug.graph_dump.path.raw),
            data_dump=DataDumpOptions(
                debug.data_dump.type.raw, debug.data_dump.path.raw, UserFunction.of(debug.data_dump.filter.raw)
            ),
            fx_summary=FxSummaryOptions(debug.fx_summary.type.raw, debug.fx_summary.skip_compile.raw),
            dump=_dump(config),
            static_model_ops_lower_limit=2 if limit.raw in {0, 1} else limit.raw,
            jit_compile=experimental.jit_compile.raw,
            # O1 keeps the program's order.
            topology_sorting_strategy=(
                "StableRDFS" if ge.oo_level == "O1" else experimental.topology_sorting_strategy.raw
            ),
            cc_parallel_enable=experimental.cc_parallel_enable.raw,
            tiling_schedule_optimize=experimental.tiling_schedule_optimize.raw,
            memory_efficiency=experimental.memory_efficiency.raw,
            dynamic_gears_merge_policy=config.inference_config.dynamic_gears_merge_policy.raw,
            enable_single_stream=ge.enable_single_stream.raw,
            oo_level=ge.oo_level.raw,
            # On at both levels unless switched off by name.
            oo_constant_folding=ge.oo_constant_folding.raw is not False,
            oo_dead_code_elimination=ge.oo_dead_code_elimination.raw is not False,
            export_compile_stat=ge.export_compile_stat.raw,
            aicore_num=parse_core_numbers(ge.aicore_num.raw),
            optimization_switch=parse_switches(ge.optimization_switch.raw),
            fusion_switch_file=_input_file(config, "fusion_config.fusion_switch_file"),
            export=_export(config),
            aoe=AoeOptions(
                config.aoe_config.aoe_mode.raw,
                config.aoe_config.work_path.raw,
                _input_file(config, "aoe_config.aoe_config_file"),
            ),
            capture=_capture(from_old_spelling(config)) if config.captures else CaptureOptions(),
            graph_strings=tuple(graph_strings.items()),
            process_strings=tuple(process_strings.items()),
        )

    @classmethod
    def from_npugraph_ex(cls, config: NpuGraphExConfig, *, rank_directory: str = SINGLE_RANK) -> Options:
        """Take the values of capture mode's configuration; arguments and errors as of :meth:`from_config`."""
        log_without_effect(config)
        dump_path = Path(config.data_dump_dir.raw)
        graph_strings = {"frozen_parameter": str(int(config.frozen_parameter.raw))}
        if config.dump_tensor_data:
            dump_path = dump_path.resolve()
            graph_strings["aclgraph.enableDump"] = "1"
            graph_strings["aclgraph.dumpPath"] = str(dump_path / rank_directory)
            graph_strings["aclgraph.dumpStage"] = config.data_dump_stage.raw
        return cls(
            mode="npugraph_ex",
            run_eagerly=config.force_eager.raw,
            post_grad_custom_pre_pass=UserFunction.of(config.post_grad_custom_pre_pass.raw),
            post_grad_custom_post_pass=UserFunction.of(config.post_grad_custom_post_pass.raw),
            frozen_parameter=config.frozen_parameter.raw,
            remove_noop_ops=config.remove_noop_ops.raw,
            pattern_fusion_pass=config.pattern_fusion_pass.raw,
            device_semantics=config.device_semantics.raw,
            verify_every=config.verify_every.raw,
            pass_fuel=config.pass_fuel.raw,
            disabled_passes=tuple(config.disabled_passes.raw),
            deadlock_check=config.deadlock_check.raw,
            dump=DumpOptions(
                enable_dump=config.dump_tensor_data.raw,
                dump_path=str(dump_path) if config.dump_tensor_data else config.data_dump_dir.raw,
                data_dump_stage=config.data_dump_stage.raw,
            ),
            capture=_capture(config),
            graph_strings=tuple(graph_strings.items()),
            process_strings=(),
        )

    def warn_unknown_switches(self, own: Collection[str]) -> None:
        """Warn about passes that ``optimization_switch`` names and nobody has (specification, F-98).

        Args:
            own: Names of our passes.
        """
        warn_unknown_passes(self.optimization_switch, own)

    def cache_key(self) -> str:
        """Return a text, one option a line, that is equal for equal options in every process."""
        return "\n".join(_lines("", self))


def _dump(config: CompilerConfig) -> DumpOptions:
    dump = config.dump_config
    return DumpOptions(
        enable_dump=dump.enable_dump.raw,
        dump_path=os.path.realpath(dump.dump_path.raw) if dump.enable_dump else dump.dump_path.raw,
        dump_mode=dump.dump_mode.raw,
        quant_dumpable=dump.quant_dumpable.raw,
        dump_step=check_iterations(dump.dump_step.raw),
        dump_layer=dump.dump_layer.raw,
        dump_data=dump.dump_data.raw,
        dump_config_path=_input_file(config, "dump_config.dump_config_path"),
        data_dump_stage=dump.data_dump_stage.raw,
    )


def _export(config: CompilerConfig) -> ExportOptions:
    export, experimental = config.export, config.export.experimental
    return ExportOptions(
        export_mode=export.export_mode.raw,
        export_path_dir=export.export_path_dir.raw,
        export_name=export.export_name.raw,
        weight_name=_text_pairs(export.weight_name.raw),
        inputs_name=_text_pairs(export.inputs_name.raw),
        auto_atc_config_generated=experimental.auto_atc_config_generated.raw,
        enable_record_nn_module_stack=experimental.enable_record_nn_module_stack.raw,
        enable_lite_export=experimental.enable_lite_export.raw,
    )


def _capture(config: NpuGraphExConfig) -> CaptureOptions:
    sizes = config._vllm_aclnn_static_kernel_sym_range.raw
    return CaptureOptions(
        force_recapture=config.force_recapture.raw,
        capture_limit=config.capture_limit.raw,
        clone_input=config.clone_input.raw,
        clone_output=config.clone_output.raw,
        use_graph_pool=config.use_graph_pool.raw,
        reuse_graph_pool_in_same_fx=config.reuse_graph_pool_in_same_fx.raw,
        capture_error_mode=config.capture_error_mode.raw,
        inplace_pass=config.inplace_pass.raw,
        input_inplace_pass=config.input_inplace_pass.raw,
        remove_cat_ops=config.remove_cat_ops.raw,
        static_kernel_compile=config.static_kernel_compile.raw,
        disable_static_kernel_compile_cache=config.disable_static_kernel_compile_cache.raw,
        super_kernel_optimize=config.super_kernel_optimize.raw,
        super_kernel_optimize_options=_super_kernel(config, "super_kernel_optimize_options"),
        super_kernel_debug_options=_super_kernel(config, "super_kernel_debug_options"),
        static_kernel_sym_index=config._vllm_aclnn_static_kernel_sym_index.raw,
        static_kernel_sym_range=None if sizes is None else tuple(sizes),
    )


def _super_kernel(config: NpuGraphExConfig, name: str) -> Pairs:
    option = config.lookup(name)
    return super_kernel_pairs(option.path, option.raw)


def _input_file(config: CompilerConfig, path: str) -> InputFile | None:
    option = config.lookup(path)
    return InputFile.of(option.raw, option.path)


def _text_pairs(names: Mapping[Any, Any] | None) -> Pairs:
    return tuple((str(key), str(value)) for key, value in (names or {}).items())


def _lines(prefix: str, value: Any) -> Iterator[str]:
    for item in fields(value):
        part = getattr(value, item.name)
        name = f"{prefix}{item.name}"
        if isinstance(part, UserFunction):
            yield f"{name} = function {part.digest}"
        elif is_dataclass(part):
            yield from _lines(f"{name}.", part)
        else:
            yield f"{name} = {part!r}"
