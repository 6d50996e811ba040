"""The configuration of capture mode: one flat list of options, and how each was spelled before.

``torch.compile(..., backend="npugraph_ex", options={...})`` takes the same names as a dictionary.
"""

# ruff: noqa: RUF009  the calls in the class bodies declare fields

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import attrs

from torchair.config.compiler_config import CompilerConfig
from torchair.config.option import OptionGroup, Scope, Setting, option
from torchair.config.rules import (
    CallableRule,
    Choice,
    DictRule,
    ExistingDirectory,
    Flag,
    GraphPool,
    IntList,
    IntRange,
    TextList,
    show,
)
from torchair.errors import ConfigTypeError

__all__ = ["OLD_SPELLING", "OPPOSITES", "NpuGraphExConfig", "from_old_spelling", "with_foreign_options"]

_option = partial(option, modes="capture", scope=Scope.GRAPH)
_pass = partial(option, modes="capture")

#: Option of capture mode -> the same on :class:`CompilerConfig`, for those that it has.
OLD_SPELLING: Mapping[str, str] = {
    "force_eager": "debug.run_eagerly",
    "capture_limit": "debug.aclgraph.static_capture_size_limit",
    "clone_input": "debug.aclgraph.clone_input",
    "clone_output": "debug.aclgraph.enable_output_clone",
    "device_semantics": "debug.device_semantics",
    "verify_every": "debug.verify_every",
    "pass_fuel": "debug.pass_fuel",
    "disabled_passes": "debug.disabled_passes",
    "use_graph_pool": "aclgraph_config.use_custom_pool",
    "reuse_graph_pool_in_same_fx": "debug.aclgraph.disable_mempool_reuse_in_same_fx",
    "frozen_parameter": "experimental_config.frozen_parameter",
    "inplace_pass": "debug.aclgraph.disable_reinplace_inplaceable_ops_pass",
    "input_inplace_pass": "debug.aclgraph.disable_reinplace_input_mutated_ops_pass",
    "remove_noop_ops": "experimental_config.remove_noop_ops",
    "remove_cat_ops": "debug.aclgraph.remove_cat_ops",
    "pattern_fusion_pass": "experimental_config.pattern_fusion_pass",
    "post_grad_custom_pre_pass": "post_grad_custom_pre_pass",
    "post_grad_custom_post_pass": "post_grad_custom_post_pass",
    "static_kernel_compile": "experimental_config.aclgraph._aclnn_static_shape_kernel",
    "disable_static_kernel_compile_cache": "experimental_config.aclgraph.disable_static_kernel_compile_cache",
    "super_kernel_optimize": "experimental_config.aclgraph.super_kernel_optimize",
    "super_kernel_optimize_options": "experimental_config.aclgraph.super_kernel_optimize_options",
    "super_kernel_debug_options": "experimental_config.aclgraph.super_kernel_debug_options",
    "dump_tensor_data": "dump_config.enable_dump",
    "data_dump_stage": "dump_config.data_dump_stage",
    "data_dump_dir": "dump_config.dump_path",
    "deadlock_check": "debug.deadlock_check",
    "_vllm_aclnn_static_kernel_sym_index": "experimental_config.aclgraph._vllm_aclnn_static_kernel_sym_index",
    "_vllm_aclnn_static_kernel_sym_range": "experimental_config.aclgraph._vllm_aclnn_static_kernel_sym_range",
}

#: Those whose old spelling says the opposite.
OPPOSITES = frozenset({"inplace_pass", "input_inplace_pass", "reuse_graph_pool_in_same_fx"})


@attrs.define(init=False, repr=False)
class NpuGraphExConfig(OptionGroup):
    """How a graph is captured and replayed; public as ``npugraph_ex.CompilerConfig``."""

    group_path: ClassVar[str] = "npugraph_ex"
    keep_booleans: ClassVar[bool] = True

    mode: Setting[str] = _option(Choice(("npugraph_ex",)), "npugraph_ex", "The only mode.")
    force_eager: Setting[bool] = _option(Flag(), False, "Run the optimized FX graph eagerly, without capture.")
    force_recapture: Setting[bool] = _option(Flag(), False, "Capture again at every call, to find stale memory.")
    capture_limit: Setting[int] = _option(
        IntRange(1), 64, "Most captures of one FX graph; when another is needed, it runs eagerly from then on."
    )
    clone_input: Setting[bool] = _option(Flag(), True, "Copy the inputs into memory of the captured graph.")
    clone_output: Setting[bool | None] = _option(
        Flag(), None, "Return copies; False returns memory that the next run overwrites; unset: fresh on CPU."
    )
    device_semantics: Setting[bool] = _option(
        Flag(), False, "Let a CPU run behave as a device graph: static outputs, address keys, copies back. Ours."
    )
    verify_every: Setting[int] = _option(
        IntRange(0), 0, "Run every k-th call eagerly as well and compare; 0 means never. Ours."
    )
    pass_fuel: Setting[int | None] = _pass(
        IntRange(0),
        None,
        "Stop optimizing after this many passes that changed something; unset means never. Ours.",
    )
    disabled_passes: Setting[list[str]] = _pass(TextList(), [], "Names of passes to leave out. Ours.")
    use_graph_pool: Setting[tuple[int, int] | None] = _option(
        GraphPool(), None, "Memory pool that several graphs share."
    )
    reuse_graph_pool_in_same_fx: Setting[bool] = _option(
        Flag(), True, "Let the captures of one FX graph use the same memory."
    )
    capture_error_mode: Setting[str] = _option(
        Choice(("global", "thread_local", "relaxed")),
        "global",
        "Which threads' unsafe actions are errors in a capture.",
    )
    frozen_parameter: Setting[bool] = _option(Flag(), False, "Promise that parameters keep their addresses.")
    inplace_pass: Setting[bool] = _pass(Flag(), True, "Write results of intermediate values in place.")
    input_inplace_pass: Setting[bool] = _pass(Flag(), True, "Write inputs in place instead of copying back.")
    remove_noop_ops: Setting[bool] = _pass(Flag(), True, "Remove operators that change nothing.")
    remove_cat_ops: Setting[bool] = _pass(Flag(), True, "Write the parts of a cat where they belong.")
    pattern_fusion_pass: Setting[bool] = _pass(Flag(), True, "Replace known groups of operators by fused ones.")
    post_grad_custom_pre_pass: Setting[Callable[..., Any] | None] = _pass(
        CallableRule(),
        None,
        "Edits the FX graph in place before the built-in passes: fn(gm, example_inputs, config), result ignored.",
    )
    post_grad_custom_post_pass: Setting[Callable[..., Any] | None] = _pass(
        CallableRule(),
        None,
        "Edits the FX graph in place after the built-in passes: fn(gm, example_inputs, config), result ignored.",
    )
    static_kernel_compile: Setting[bool] = _option(Flag(), False, "Fused native code in the captured graph (CPU).")
    disable_static_kernel_compile_cache: Setting[bool] = _option(Flag(), False, "Compile those kernels anew each time.")
    super_kernel_optimize: Setting[bool] = _option(
        Flag(), False, "Fused native code in the captured graph (CPU), as static_kernel_compile."
    )
    super_kernel_optimize_options: Setting[dict[str, Any] | None] = _option(DictRule(), None, "Options of that merge.")
    super_kernel_debug_options: Setting[dict[str, Any] | None] = _option(
        DictRule(), None, "Options of that merge for finding faults."
    )
    dump_tensor_data: Setting[bool] = _option(Flag(), False, "Write inputs and results of nodes to files.")
    data_dump_stage: Setting[str] = _option(Choice(("original", "optimized")), "optimized", "Which FX graph is dumped.")
    data_dump_dir: Setting[str] = _option(ExistingDirectory(), "./", "Directory of the dump.")
    deadlock_check: Setting[bool] = _option(Flag(), False, "Look for streams that could wait for each other forever.")
    _vllm_aclnn_static_kernel_sym_index: Setting[int] = _option(
        IntRange(0), 0, "Input whose size chooses whether kernels are compiled for it."
    )
    _vllm_aclnn_static_kernel_sym_range: Setting[list[int] | None] = _option(
        IntList(), None, "Sizes for which they are."
    )

    @classmethod
    def from_options(cls, options: Mapping[str, Any] | None) -> NpuGraphExConfig:
        """Return the configuration that ``options=`` of ``torch.compile`` describes.

        Raises:
            UnknownOptionError: A name is unknown; all unknown names are reported together.
            ConfigValueError, ConfigTypeError, ConfigFileNotFoundError: A value is not accepted.
        """
        return cls().with_options(options)

    def with_options(self, options: Mapping[str, Any] | None) -> NpuGraphExConfig:
        """Return a copy with some options set; errors as of :meth:`from_options`."""
        config = copy.deepcopy(self)
        for name, value in _checked(options).items():
            setattr(config, name, value)
        return config


def _checked(options: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise ConfigTypeError("options takes a dictionary", why=f"options = {show(options)}")
    names = NpuGraphExConfig.names()
    if unknown := [str(name) for name in options if name not in names]:
        raise NpuGraphExConfig.unknown(unknown)
    return options


def from_old_spelling(config: CompilerConfig) -> NpuGraphExConfig:
    """Return the configuration of capture mode that a :class:`CompilerConfig` describes by the old spelling."""
    result = NpuGraphExConfig()
    for name, path in OLD_SPELLING.items():
        value = config.lookup(path).raw
        setattr(result, name, not value if name in OPPOSITES else value)
    return result


def with_foreign_options(config: CompilerConfig, options: Mapping[str, Any] | None) -> CompilerConfig:
    """Return ``config`` with the options of capture mode that were given to a GE mode backend, and warn about them.

    Upstream documents ``options=`` as unsupported in GE mode and takes these names all the same (specification, D-01).
    Those with another spelling on :class:`CompilerConfig` are set there, on a copy; the others have no effect.

    Raises:
        UnknownOptionError: A name is unknown.
        ConfigValueError, ConfigTypeError, ConfigFileNotFoundError: A value is not accepted.
    """
    given = NpuGraphExConfig.from_options(options)
    if not options:
        return config
    notes = []
    result = copy.deepcopy(config)
    for name in options:
        value = getattr(given, name).raw
        if (path := OLD_SPELLING.get(name)) is None:
            notes.append(f"{name} has no effect here")
            continue
        result.assign(path, not value if name in OPPOSITES else value)
        notes.append(f"{name}: use config.{path}")
    text = 'options= is meant for the backend "npugraph_ex"; in GE mode set them on the CompilerConfig'
    warnings.warn(f"{text} ({'; '.join(notes)})", UserWarning, stacklevel=2)
    return result
