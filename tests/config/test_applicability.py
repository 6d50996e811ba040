"""Warnings about options that the selected mode ignores."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from tests.config.catalogue import GE_MODE, SINGLE_VALUED, other_value

from torchair.config import CompilerConfig, warn_inapplicable

#: What the specification (F-09) says that each mode ignores, with a value that is not the default.
IGNORED_IN_GE = {
    "debug.aclgraph.disable_reinplace_input_mutated_ops_pass": True,
    "debug.aclgraph.disable_reinplace_inplaceable_ops_pass": True,
    "debug.aclgraph.clone_input": False,
    "experimental_config.aclgraph._aclnn_static_shape_kernel": True,
}
IGNORED_IN_CAPTURE = {
    "inference_config.dynamic_gears_merge_policy": "product",
    "debug.fx_summary.type": "csv",
    "ge_config.export_compile_stat": "1",
    "export.experimental.auto_atc_config_generated": True,
    "export.experimental.enable_record_nn_module_stack": True,
    "ge_config.enable_single_stream": True,
    "ge_config.oo_level": "O1",
    "ge_config.oo_constant_folding": True,
    "ge_config.oo_dead_code_elimination": False,
    "experimental_config.topology_sorting_strategy": "BFS",
    "experimental_config.cc_parallel_enable": True,
    "experimental_config.enable_ref_data": True,
    "experimental_config.tiling_schedule_optimize": True,
    "experimental_config.static_model_ops_lower_limit": 5,
    "ge_config.aicore_num": "1|1",
    "ge_config.optimization_switch": "A:on",
}
ACT_IN_BOTH = {
    "debug.run_eagerly",
    "debug.data_dump.filter",
    "debug.data_dump.path",
    "debug.data_dump.type",
    "debug.deadlock_check",
    "debug.device_semantics",
    "debug.disabled_passes",
    "debug.pass_fuel",
    "debug.verify_custom_ops",
    "debug.verify_every",
    "dump_config.dump_path",
    "experimental_config.aot_config_enable_joint_graph",
    "experimental_config.aot_config_output_loss_index",
    "experimental_config.frozen_parameter",
    "experimental_config.keep_inference_input_mutations",
    "experimental_config.npu_fx_pass",
    "experimental_config.pattern_fusion_pass",
    "experimental_config.remove_noop_ops",
    "post_grad_custom_post_pass",
    "post_grad_custom_pre_pass",
}


def warnings_of(config: CompilerConfig) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_inapplicable(config)
    assert all(warning.category is UserWarning for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("mode", ["max-autotune", "npugraph_ex"])
def test_defaults_give_no_warning(mode):
    config = CompilerConfig()
    config.mode = mode
    assert warnings_of(config) == []


def test_one_warning_names_all_in_ge_mode():
    config = CompilerConfig()
    for path, value in IGNORED_IN_GE.items():
        config.assign(path, value)
    (text,) = warnings_of(config)
    assert text == (
        "config.mode = 'max-autotune' ignores "
        "config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass:True, "
        "config.debug.aclgraph.disable_reinplace_input_mutated_ops_pass:True, "
        "config.debug.aclgraph.clone_input:False, "
        "config.experimental_config.aclgraph._aclnn_static_shape_kernel:True."
    )


def test_one_warning_names_all_in_capture_mode(tmp_path):
    (tmp_path / "switches.cfg").write_text("{}")
    file = str(tmp_path / "switches.cfg")
    ignored = {**IGNORED_IN_CAPTURE, "fusion_config.fusion_switch_file": file}
    config = CompilerConfig()
    config.mode = "npugraph_ex"
    for path, value in ignored.items():
        config.assign(path, value)
    (text,) = warnings_of(config)
    head, _, tail = text.partition(". inference.set_dim_gears")
    assert head.removeprefix("config.mode = 'npugraph_ex' ignores ").split(", ") == [
        f"config.{path}:{value}"
        for path, value in sorted(
            ignored.items(), key=lambda item: [o.path for o in config.walk()].index(f"config.{item[0]}")
        )
    ]
    assert tail == (
        ", dynamo_export, the scopes other than npu_stream_switch, npu_wait_tensor and limit_core_num, and npu_print "
        "do not apply in this mode either."
    )


def test_reduce_overhead_is_capture_mode():
    config = CompilerConfig()
    with pytest.warns(DeprecationWarning, match="reduce-overhead"):
        config.mode = "reduce-overhead"
    config.ge_config.oo_level = "O1"
    (text,) = warnings_of(config)
    assert text.startswith("config.mode = 'reduce-overhead' ignores config.ge_config.oo_level:O1. ")


def test_the_dump_in_capture_mode():
    config = CompilerConfig()
    config.mode = "npugraph_ex"
    config.dump_config.enable_dump = True
    config.dump_config.dump_mode = "input"
    (text,) = warnings_of(config)
    assert text.startswith(
        "config.mode = 'npugraph_ex' ignores config.dump_config.dump_mode:input. "
        "config.dump_config.enable_dump:True writes the tensors of FX nodes here; "
        "of dump_config only dump_path and data_dump_stage apply. "
    )


@pytest.mark.parametrize("row", GE_MODE, ids=[row.path for row in GE_MODE])
def test_every_option_acts_in_a_mode(row, tmp_path):
    modes = CompilerConfig().lookup(row.path).spec.modes
    assert modes
    if row.path in {"mode", "dump_config.enable_dump"}:
        return
    assert (modes == {"ge", "capture"}) is (row.path in ACT_IN_BOTH)
    if row.path == SINGLE_VALUED:
        return
    for mode, name in (("max-autotune", "ge"), ("npugraph_ex", "capture")):
        config = CompilerConfig()
        config.mode = mode
        config.assign(row.path, other_value(row, tmp_path))
        assert bool(warnings_of(config)) is (name not in modes)


def test_the_line_shown_can_be_an_outer_one():
    def get_backend() -> None:
        config = CompilerConfig()
        config.debug.aclgraph.clone_input = False
        warn_inapplicable(config, stacklevel=2)

    with pytest.warns(UserWarning, match="clone_input") as caught:
        get_backend()
    (line,) = (warning.lineno for warning in caught)
    assert Path(__file__).read_text(encoding="utf-8").splitlines()[line - 1] == "        get_backend()"
