"""The engine strings of a configuration: ``as_dict``, after appendix 1 of the specification."""

from __future__ import annotations

import os

import pytest

from torchair.config import CompilerConfig

GRAPH = {
    "ge.exec.atomicCleanPolicy": "1",
    "frozen_parameter": "0",
    "ge.jit_compile": "2",
    "ge.topoSortingMode": "1",
    "ge.tiling_schedule_optimize": "0",
    "ge.featureBaseRefreshable": "0",
}
PROCESS = {
    "ge.exec.staticMemoryPolicy": "2",
    "ge.opSelectImplmode": "high_precision",
    "ge.quant_dumpable": "0",
    "ge.exec.enableEngineParallel": "0",
    "ge.enableSingleStream": "false",
    "ge.oo.level": "O3",
    "ge.exportCompileStat": "2",
}


def test_defaults():
    assert CompilerConfig().as_dict() == (GRAPH, PROCESS)


@pytest.mark.parametrize(
    "path, value, expected",
    [
        ("experimental_config.tiling_schedule_optimize", True, {"ge.tiling_schedule_optimize": "1"}),
        ("experimental_config.memory_efficiency", True, {"ge.featureBaseRefreshable": "1"}),
        ("experimental_config.topology_sorting_strategy", "BFS", {"ge.topoSortingMode": "0"}),
        ("experimental_config.topology_sorting_strategy", "DFS", {"ge.topoSortingMode": "1"}),
        ("experimental_config.topology_sorting_strategy", "RDFS", {"ge.topoSortingMode": "2"}),
        ("experimental_config.topology_sorting_strategy", "StableRDFS", {"ge.topoSortingMode": "3"}),
        ("experimental_config.jit_compile", "auto", {"ge.jit_compile": "2"}),
        (
            "experimental_config.static_model_ops_lower_limit",
            -1,
            {"ge.exec.static_model_ops_lower_limit": "-1"},
        ),
        ("experimental_config.static_model_ops_lower_limit", 0, {"ge.exec.static_model_ops_lower_limit": "2"}),
        ("experimental_config.static_model_ops_lower_limit", 1, {"ge.exec.static_model_ops_lower_limit": "2"}),
        ("experimental_config.static_model_ops_lower_limit", 9, {"ge.exec.static_model_ops_lower_limit": "9"}),
        ("experimental_config.frozen_parameter", True, {"frozen_parameter": "1"}),
    ],
)
def test_strings_of_the_graph(path, value, expected):
    config = CompilerConfig()
    config.assign(path, value)
    assert config.as_dict() == (GRAPH | expected, PROCESS)


@pytest.mark.parametrize(
    "path, value, expected",
    [
        ("experimental_config.cc_parallel_enable", True, {"ge.exec.enableEngineParallel": "1"}),
        ("ge_config.aicore_num", "24|48", {"ge.aicoreNum": "24|48"}),
        ("ge_config.enable_single_stream", True, {"ge.enableSingleStream": "true"}),
        ("ge_config.oo_constant_folding", True, {"ge.oo.constantFolding": "true"}),
        ("ge_config.oo_constant_folding", False, {"ge.oo.constantFolding": "false"}),
        ("ge_config.oo_dead_code_elimination", False, {"ge.oo.deadCodeElimination": "false"}),
        ("ge_config.export_compile_stat", "0", {"ge.exportCompileStat": "0"}),
        ("ge_config.optimization_switch", "A:on", {"ge.optimizationSwitch": "A:on"}),
        ("dump_config.quant_dumpable", True, {"ge.quant_dumpable": "1"}),
    ],
)
def test_strings_of_the_process(path, value, expected):
    config = CompilerConfig()
    config.assign(path, value)
    assert config.as_dict() == (GRAPH, PROCESS | expected)


def test_level_o1_keeps_the_order_of_the_program():
    config = CompilerConfig()
    config.ge_config.oo_level = "O1"
    config.experimental_config.topology_sorting_strategy = "BFS"
    assert config.as_dict() == (GRAPH | {"ge.topoSortingMode": "3"}, PROCESS | {"ge.oo.level": "O1"})


def test_files_are_real_paths(tmp_path, monkeypatch):
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("real.json")
    monkeypatch.chdir(tmp_path)
    config = CompilerConfig()
    config.fusion_config.fusion_switch_file = "link.json"
    config.dump_config.dump_config_path = "link.json"
    real = os.path.realpath(tmp_path / "real.json")
    assert config.as_dict() == (GRAPH, PROCESS | {"ge.fusionSwitchFile": real, "ge_dump_with_acl_config": real})


class TestDump:
    @pytest.fixture
    def config(self, tmp_path):
        config = CompilerConfig()
        config.dump_config.dump_path = str(tmp_path)
        config.dump_config.dump_mode = "input"
        config.dump_config.dump_data = "stats"
        config.dump_config.dump_step = "0|2"
        config.dump_config.dump_layer = "Add"
        config.dump_config.data_dump_stage = "original"
        return config

    def test_off_sends_nothing(self, config):
        assert config.as_dict() == (GRAPH, PROCESS)

    def test_on(self, config, tmp_path):
        config.dump_config.enable_dump = True
        expected = {
            "ge.exec.enableDump": "1",
            "ge.exec.dumpPath": f"{tmp_path}/worldsize1_global_rank0",
            "ge.exec.dumpMode": "input",
            "ge.exec.dumpStep": "0|2",
            "ge.exec.dumpLayer": "Add",
            "ge.exec.dumpData": "stats",
        }
        assert config.as_dict() == (GRAPH, PROCESS | expected)

    def test_each_rank_has_its_directory(self, config, tmp_path):
        config.dump_config.enable_dump = True
        assert config.as_dict("worldsize8_global_rank3")[1]["ge.exec.dumpPath"] == f"{tmp_path}/worldsize8_global_rank3"

    def test_all_steps_and_layers_are_not_said(self, config):
        config.dump_config.enable_dump = True
        config.dump_config.dump_step = ""
        config.dump_config.dump_layer = ""
        assert not {"ge.exec.dumpStep", "ge.exec.dumpLayer"} & set(config.as_dict()[1])

    def test_in_capture_mode(self, config, tmp_path):
        config.dump_config.enable_dump = True
        config.mode = "npugraph_ex"
        expected = {
            "frozen_parameter": "0",
            "aclgraph.enableDump": "1",
            "aclgraph.dumpPath": f"{tmp_path}/worldsize1_global_rank0",
            "aclgraph.dumpStage": "original",
        }
        assert config.as_dict() == (expected, {})
