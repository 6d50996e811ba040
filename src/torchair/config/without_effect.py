"""Options that are checked and kept, and change nothing yet; the page of options marks them, a log line says so."""

from __future__ import annotations

from collections.abc import Iterator

from torchair.config.option import Option, OptionGroup
from torchair.logs import logger

__all__ = ["NEEDS_DEVICE", "WITHOUT_EFFECT", "log_without_effect"]

_GE = """
    debug.graph_dump.type debug.graph_dump.path
    debug.data_dump.type debug.data_dump.path debug.data_dump.filter
    debug.fx_summary.type debug.fx_summary.skip_compile
    export.export_mode export.export_path_dir export.export_name export.weight_name export.inputs_name
    export.experimental.auto_atc_config_generated export.experimental.enable_record_nn_module_stack
    export.experimental.enable_lite_export
    dump_config.enable_dump dump_config.dump_path dump_config.dump_mode dump_config.quant_dumpable
    dump_config.dump_step dump_config.dump_layer dump_config.dump_data dump_config.dump_config_path
    dump_config.data_dump_stage
    experimental_config.aclgraph.disable_static_kernel_compile_cache
    experimental_config.aclgraph.super_kernel_optimize_options
    experimental_config.aclgraph.super_kernel_debug_options
    experimental_config.aclgraph._vllm_aclnn_static_kernel_sym_index
    experimental_config.aclgraph._vllm_aclnn_static_kernel_sym_range
    experimental_config.cc_parallel_enable experimental_config.static_model_ops_lower_limit
    experimental_config.jit_compile experimental_config.enable_ref_data
    experimental_config.tiling_schedule_optimize experimental_config.memory_efficiency experimental_config.npu_fx_pass
    experimental_config.aot_config_enable_joint_graph experimental_config.aot_config_output_loss_index
    inference_config.dynamic_gears_merge_policy
    ge_config.oo_dead_code_elimination ge_config.export_compile_stat
    aoe_config.aoe_mode aoe_config.work_path aoe_config.aoe_config_file
"""
_CAPTURE = """
    disable_static_kernel_compile_cache
    super_kernel_optimize_options super_kernel_debug_options
    dump_tensor_data data_dump_stage data_dump_dir
    _vllm_aclnn_static_kernel_sym_index _vllm_aclnn_static_kernel_sym_range
"""

#: Full names of the options that nothing reads in this version.
WITHOUT_EFFECT = frozenset(f"config.{name}" for name in _GE.split()) | {f"npugraph_ex.{n}" for n in _CAPTURE.split()}

#: Full names of those that act on a device and with ``device_semantics``, or (``capture_error_mode``) on a device only.
NEEDS_DEVICE = frozenset(
    {
        "config.debug.aclgraph.clone_input",
        "npugraph_ex.frozen_parameter",
        "npugraph_ex.clone_input",
        "npugraph_ex.capture_error_mode",
    }
)


def log_without_effect(config: OptionGroup) -> None:
    """Log one line, the first time, for each option with a value of the user's that changes nothing."""
    for option in _changed(config):
        logger.info_once("%s = %r: recorded, no effect on any device yet", option.path, option.raw)


def _changed(config: OptionGroup) -> Iterator[Option[object]]:
    return (option for option in config.walk() if option.path in WITHOUT_EFFECT and not option.is_default)
