"""Tables of every option of both configurations: its default, values that it takes, and values that it refuses.

They are written from the specification (F-07, F-08, decisions 1 and 12), not from the code. Existing files and
directories appear as ``FILE``, ``JSON`` and ``DIR``, which the tests make.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from torchair.errors import ConfigFileNotFoundError, ConfigTypeError, ConfigValueError, TorchAirError

FILE, JSON, DIR, MISSING = object(), object(), object(), object()
MAX = 2**63 - 1


def _function(*args: object) -> None:
    """A function for options that take one."""


class Row(NamedTuple):
    path: str
    default: Any
    good: list[Any]
    bad: list[Any]
    error: type[TorchAirError]


def choice(path: str, default: Any, *values: Any) -> Row:
    bad: list[Any] = ["no such value", "", 5, ["x"], object(), values[0].upper() + "x"]
    return Row(path, default, [*values, *([None] if default is None else [])], bad, ConfigValueError)


def flag(path: str, default: bool | None) -> Row:
    good = [True, False, 1, 0, *([None] if default is None else [])]
    bad: list[Any] = ["True", "1", 2, -1, [], {}, *([] if default is None else [None])]
    return Row(path, default, good, bad, ConfigValueError)


def integer(path: str, default: int | None, low: int) -> Row:
    good = [low, low + 1, MAX, True, *([None] if default is None else [])]
    bad: list[Any] = [low - 1, MAX + 1, "1", 1.0, [1], *([] if default is None else [None])]
    return Row(path, default, good, bad, ConfigValueError)


def text(path: str) -> Row:
    return Row(path, None, ["", "a b", None], [1, True, ["a"], b"a"], ConfigTypeError)


def dictionary(path: str) -> Row:
    return Row(path, None, [{}, {"a": 1}, None], ["a", [("a", 1)], 1], ConfigTypeError)


def function(path: str) -> Row:
    return Row(path, None, [_function, print, int, None], ["f", 1, [_function]], ConfigTypeError)


def file(path: str) -> Row:
    return Row(path, None, [FILE, JSON, None], [MISSING, DIR, "", 0, 1, "a\0b", "x" * 5000], ConfigFileNotFoundError)


def directory(path: str) -> Row:
    return Row(path, "./", [DIR, "./", "."], [MISSING, FILE, "", None, 0, 1, "a\0b"], ConfigFileNotFoundError)


def path_text(path: str) -> Row:
    return Row(path, None, [DIR, FILE, MISSING, None], [1, ["a"], b"a"], ConfigTypeError)


POOL = Row("", None, [(0, 1), (1, 0), (0, 0), None], [(1, 2), (0,), (0, 0, 0), [0, 1], ("0", 1), 0], ConfigTypeError)
NAMES = Row("", [], [["a", "b"], ("c",), [], None], ["a", [1], 1, {"a"}], ConfigTypeError)
INT_LIST = Row("", None, [[1, 2], (3,), [], None], ["12", [1, "2"], 1, [1.0], {1: 2}], ConfigTypeError)

GE_MODE = [
    choice("mode", "max-autotune", "max-autotune", "reduce-overhead", "npugraph_ex"),
    choice("engine", "auto", "auto", "reference", "inductor", "native"),
    function("post_grad_custom_pre_pass"),
    function("post_grad_custom_post_pass"),
    choice("debug.graph_dump.type", None, "txt", "pbtxt", "py"),
    path_text("debug.graph_dump.path"),
    choice("debug.data_dump.type", None, "npy"),
    path_text("debug.data_dump.path"),
    function("debug.data_dump.filter"),
    choice("debug.fx_summary.type", None, "csv"),
    flag("debug.fx_summary.skip_compile", True),
    flag("debug.aclgraph.disable_reinplace_inplaceable_ops_pass", False),
    flag("debug.aclgraph.disable_reinplace_input_mutated_ops_pass", False),
    flag("debug.aclgraph.disable_mempool_reuse_in_same_fx", False),
    integer("debug.aclgraph.static_capture_size_limit", 64, 1),
    flag("debug.aclgraph.clone_input", True),
    flag("debug.aclgraph.enable_output_clone", None),
    flag("debug.aclgraph.remove_cat_ops", True),
    flag("debug.run_eagerly", False),
    flag("debug.deadlock_check", False),
    flag("debug.device_semantics", False),
    integer("debug.verify_every", 0, 0),
    flag("debug.verify_custom_ops", False),
    flag("debug.verify_graphs", False),
    integer("debug.pass_fuel", None, 0),
    NAMES._replace(path="debug.disabled_passes"),
    flag("export.experimental.auto_atc_config_generated", False),
    flag("export.experimental.enable_record_nn_module_stack", False),
    flag("export.experimental.enable_lite_export", False),
    flag("export.export_mode", False),
    text("export.export_path_dir"),
    text("export.export_name"),
    dictionary("export.weight_name"),
    dictionary("export.inputs_name"),
    flag("dump_config.enable_dump", False),
    directory("dump_config.dump_path"),
    choice("dump_config.dump_mode", "all", "input", "output", "all"),
    flag("dump_config.quant_dumpable", False),
    Row(
        "dump_config.dump_step",
        "",
        ["", "0", "0|3-5|10", "1-1000", "7|8"],
        ["x", "1,2", "1|", "|1", "1-", "-1", " 1", "1\n", "1-2-3", "\u0663", None, 1],
        ConfigValueError,
    ),
    Row(
        "dump_config.dump_layer",
        "",
        ["", "Add", "Add_1 MatMulV2", 'a/b.c "q" d\\e', "a  b"],
        ["a,b", "a;b", "a:b", " a", "a ", "a\n", "a\tb", "\u00e9", None, 1],
        ConfigValueError,
    ),
    choice("dump_config.dump_data", "tensor", "tensor", "stats"),
    Row("dump_config.dump_config_path", None, [JSON, None], [FILE, DIR, MISSING, 1], ConfigFileNotFoundError),
    choice("dump_config.data_dump_stage", "optimized", "original", "optimized"),
    file("fusion_config.fusion_switch_file"),
    flag("experimental_config.aclgraph._aclnn_static_shape_kernel", False),
    flag("experimental_config.aclgraph.disable_static_kernel_compile_cache", False),
    flag("experimental_config.aclgraph.super_kernel_optimize", False),
    dictionary("experimental_config.aclgraph.super_kernel_optimize_options"),
    dictionary("experimental_config.aclgraph.super_kernel_debug_options"),
    integer("experimental_config.aclgraph._vllm_aclnn_static_kernel_sym_index", 0, 0),
    INT_LIST._replace(path="experimental_config.aclgraph._vllm_aclnn_static_kernel_sym_range"),
    flag("experimental_config.cc_parallel_enable", False),
    flag("experimental_config.frozen_parameter", False),
    integer("experimental_config.static_model_ops_lower_limit", None, -1),
    choice("experimental_config.jit_compile", "auto", "auto"),
    choice("experimental_config.topology_sorting_strategy", "DFS", "BFS", "DFS", "RDFS", "StableRDFS"),
    flag("experimental_config.enable_ref_data", False),
    flag("experimental_config.enable_view_optimize", True),
    flag("experimental_config.remove_noop_ops", True),
    flag("experimental_config.pattern_fusion_pass", True),
    flag("experimental_config.tiling_schedule_optimize", False),
    flag("experimental_config.keep_inference_input_mutations", True),
    flag("experimental_config.memory_efficiency", False),
    flag("experimental_config.npu_fx_pass", False),
    flag("experimental_config.aot_config_enable_joint_graph", False),
    integer("experimental_config.aot_config_output_loss_index", 0, 0),
    choice("experimental_config.unconverted_ops", "run", "run", "error"),
    flag("experimental_config.require_prototype", False),
    choice("inference_config.dynamic_gears_merge_policy", "zip", "zip", "product"),
    flag("ge_config.enable_single_stream", False),
    choice("ge_config.oo_level", "O3", "O1", "O3"),
    flag("ge_config.oo_constant_folding", None),
    flag("ge_config.oo_dead_code_elimination", None),
    choice("ge_config.export_compile_stat", "2", "0", "1", "2"),
    text("ge_config.aicore_num"),
    text("ge_config.optimization_switch"),
    choice("aoe_config.aoe_mode", None, "2"),
    directory("aoe_config.work_path"),
    file("aoe_config.aoe_config_file"),
    POOL._replace(path="aclgraph_config.use_custom_pool"),
]

CAPTURE_MODE = [
    choice("mode", "npugraph_ex", "npugraph_ex"),
    flag("force_eager", False),
    flag("force_recapture", False),
    integer("capture_limit", 64, 1),
    flag("clone_input", True),
    flag("clone_output", None),
    flag("device_semantics", False),
    integer("verify_every", 0, 0),
    integer("pass_fuel", None, 0),
    NAMES._replace(path="disabled_passes"),
    POOL._replace(path="use_graph_pool"),
    flag("reuse_graph_pool_in_same_fx", True),
    choice("capture_error_mode", "global", "global", "thread_local", "relaxed"),
    flag("frozen_parameter", False),
    flag("inplace_pass", True),
    flag("input_inplace_pass", True),
    flag("remove_noop_ops", True),
    flag("remove_cat_ops", True),
    flag("pattern_fusion_pass", True),
    function("post_grad_custom_pre_pass"),
    function("post_grad_custom_post_pass"),
    flag("static_kernel_compile", False),
    flag("disable_static_kernel_compile_cache", False),
    flag("super_kernel_optimize", False),
    dictionary("super_kernel_optimize_options"),
    dictionary("super_kernel_debug_options"),
    flag("dump_tensor_data", False),
    choice("data_dump_stage", "optimized", "original", "optimized"),
    directory("data_dump_dir"),
    flag("deadlock_check", False),
    integer("_vllm_aclnn_static_kernel_sym_index", 0, 0),
    INT_LIST._replace(path="_vllm_aclnn_static_kernel_sym_range"),
]

#: The one option with a single value.
SINGLE_VALUED = "experimental_config.jit_compile"


def other_value(row: Row, directory: Path) -> object:
    """Return a value of the option that is not its default, and that can be compiled with."""
    special = {
        "aicore_num": "1|2",
        "optimization_switch": "SoftmaxFusionPass:off",
        "weight_name": {"a": "b"},
        "inputs_name": {"a": "b"},
        "super_kernel_optimize_options": {"a": 1},
        "super_kernel_debug_options": {"a": 1},
        "post_grad_custom_pre_pass": _function,
        "post_grad_custom_post_pass": _function,
        "filter": _function,
        "export_path_dir": "d",
        "export_name": "n",
        "path": str(directory),
        "fusion_switch_file": str(directory / "file.json"),
        "aoe_config_file": str(directory / "file.json"),
        "dump_config_path": str(directory / "file.json"),
        "dump_path": str(directory),
        "work_path": str(directory),
        "data_dump_dir": str(directory),
        "mode": "npugraph_ex",
        "static_model_ops_lower_limit": 9,
    }
    (directory / "file.json").write_text("{}")
    name = row.path.rpartition(".")[2]
    if name in special:
        return special[name]
    # The level says True for the two that follow it, so True is no change.
    follows_level = name in {"oo_constant_folding", "oo_dead_code_elimination"}
    other = [value for value in row.good if value is not None and value != row.default]
    return False if follows_level else other[0]
