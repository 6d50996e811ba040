"""Every public name resolves, upstream's paths included, and what is not there yet says so."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
import torch

import npugraph_ex
import torchair
from torchair.errors import UnavailableFeatureError

#: Source: feature specification, F-01.
NAMES = {
    "torchair": (
        "CompilerConfig get_npu_backend get_compiler dynamo_export use_internal_format_weight npu_format_cast_via_cpu "
        "logger register_fx_node_ge_converter patch_for_hcom register_replacement check_operator declare_supported "
        "explain reset record_trace"
    ),
    "torchair.ge": (
        "custom_op Const Cast Clone DataType Format Tensor TensorSpec attr declare_op register_kernel Shape Add"
    ),
    "torchair.ge.attr": (
        "Bool DataType Float Int ListBool ListDataType ListFloat ListInt ListListFloat ListListInt ListStr Str"
    ),
    "torchair.customop": "load_prototypes load_op_plugin_yaml check_operator",
    "torchair.inference": "cache_compile readable_cache set_dim_gears",
    "torchair.ops": (
        "npu_print save_npugraph_tensor record wait npu_fused_infer_attention_score npu_fused_infer_attention_score_v2 "
        "npu_create_tagged_event npu_tagged_event_record npu_tagged_event_wait npu_record_tagged_stream"
    ),
    "torchair.scope": "npu_stream_switch npu_wait_tensor super_kernel limit_core_num op_never_timeout data_dump",
    "torchair.llm_datadist": "create_npu_tensors",
    "torchair.configs.compiler_config": "CompilerConfig",
    "torchair.core.utils": "logger EVENT_LEVEL",
    "torchair.trace": "align_trace_json check_deadlocks deadlock_check filter_comm_ops plan_trace read_trace",
    "torchair.tools.gegraph_check.align_trace": "align_trace_json",
    "torchair.tools.gegraph_check.deadlock_check": "deadlock_check",
    "torchair.tools.gegraph_check.filter_operators": "filter_comm_ops",
    "npugraph_ex": (
        "CompilerConfig compile_fx get_npu_backend get_compiler graph_pool_handle register_replacement logger "
        "inference scope set_capture_bounds save_npugraph_tensor"
    ),
    "npugraph_ex.inference": "cache_compile readable_cache",
    "npugraph_ex.scope": "limit_core_num",
    "torchair._ge_concrete_graph.fx2ge_converter": "register_fx_node_ge_converter declare_supported",
    "torchair._ge_concrete_graph.supported_declaration": "Support F32 F16 BF16 F64 I8 I16 I32 I64 U8 C64 BOOL T",
    "torchair._ge_concrete_graph.ge_apis": "Add Const Cast",
    "torchair.ge._ge_graph": "Tensor TensorSpec DataType get_default_ge_graph",
    "torchair._ge_concrete_graph.utils": "dtype_promote",
}


@pytest.mark.parametrize("module", NAMES)
def test_names_resolve(module) -> None:
    found = importlib.import_module(module)
    for name in NAMES[module].split():
        assert getattr(found, name) is not None, name


@pytest.mark.parametrize("module", [torchair, npugraph_ex])
def test_all_lists_what_there_is(module) -> None:
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        module.nothing


def test_paths_to_one_object() -> None:
    assert importlib.import_module("torchair.configs.compiler_config").CompilerConfig is torchair.CompilerConfig
    assert importlib.import_module("torchair.core.utils").logger is torchair.logger
    converter = importlib.import_module("torchair._ge_concrete_graph.fx2ge_converter")
    assert converter.register_fx_node_ge_converter is torchair.register_fx_node_ge_converter
    assert npugraph_ex.logger is not torchair.logger


def test_submodules_are_attributes_of_the_package() -> None:
    code = (
        "import torchair\n"
        "print(torchair.ge.attr.Int(1), torchair.scope.super_kernel, torchair.inference.cache_compile,"
        " torchair.tools, torchair.llm_datadist.create_npu_tensors)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


LATER = [
    ("torchair.dynamo_export", lambda: torchair.dynamo_export(model=torch.nn.Linear(1, 1))),
    ("torchair.patch_for_hcom", lambda: torchair.patch_for_hcom()),
    ("torchair.ops.npu_fused_infer_attention_score", lambda: torchair.ops.npu_fused_infer_attention_score()),
    ("torchair.ops.npu_fused_infer_attention_score_v2", lambda: torchair.ops.npu_fused_infer_attention_score_v2()),
    ("torchair.inference.cache_compile", lambda: torchair.inference.cache_compile(lambda: None)),
    ("torchair.inference.readable_cache", lambda: torchair.inference.readable_cache("x")),
    ("torchair.inference.set_dim_gears", lambda: torchair.inference.set_dim_gears(torch.ones(1), {0: [1, 2]})),
]


@pytest.mark.parametrize(("name", "call"), LATER, ids=[name for name, _ in LATER])
def test_what_is_not_there_says_so(name, call) -> None:
    with pytest.raises(NotImplementedError) as caught:
        call()
    assert isinstance(caught.value, UnavailableFeatureError)
    assert caught.value.why == (f"{name} has its name here, and no implementation yet",)
