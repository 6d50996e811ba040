"""The frozen options that the rest of the system reads."""

from __future__ import annotations

import dataclasses
import pickle
import re
import subprocess
import sys
import warnings
from textwrap import dedent

import pytest
from tests.config.catalogue import CAPTURE_MODE, GE_MODE, SINGLE_VALUED, other_value

from torchair.config import CompilerConfig, NpuGraphExConfig, Options
from torchair.config.options import CaptureOptions, InputFile, UserFunction
from torchair.errors import ConfigFileNotFoundError, ConfigValueError


def a_pass(gm, example_inputs, config):
    """A pass of the user's."""
    return 1


def another_pass(gm, example_inputs, config):
    """A pass of the user's."""
    return 2


class TestFromConfig:
    def test_defaults_are_those_of_the_class(self):
        assert Options.from_config(CompilerConfig()) == Options()
        assert Options.from_config(CompilerConfig()).cache_key() == Options().cache_key()

    @pytest.mark.parametrize("row", [pytest.param(row, id=row.path) for row in GE_MODE if row.path != SINGLE_VALUED])
    def test_every_option_is_in_the_options_and_in_the_key(self, row, tmp_path):
        config = CompilerConfig()
        # Options of capture mode matter in that mode only.
        if "aclgraph" in row.path or row.path.endswith("data_dump_stage"):
            config.mode = "npugraph_ex"
        before = Options.from_config(config)
        value = other_value(row, tmp_path)
        config.assign(row.path, value)
        after = Options.from_config(config)
        assert after != before
        assert after.cache_key() != before.cache_key()
        assert hash(after) == hash(Options.from_config(config))
        assert after == Options.from_config(config)

    def test_values_are_plain(self):
        config = CompilerConfig()
        config.debug.disabled_passes = ["a", "b"]
        config.debug.pass_fuel = 3
        config.ge_config.aicore_num = "24|"
        config.ge_config.optimization_switch = "A:on;B:off"
        options = Options.from_config(config)
        assert options.disabled_passes == ("a", "b")
        assert options.pass_fuel == 3
        assert options.aicore_num == (24, None)
        assert options.optimization_switch == (("A", True), ("B", False))
        assert type(options.mode) is str
        assert type(options.run_eagerly) is bool

    def test_later_changes_of_the_configuration_have_no_effect(self):
        config = CompilerConfig()
        config.debug.disabled_passes = ["a"]
        options = Options.from_config(config)
        config.debug.disabled_passes.raw.append("b")
        config.debug.run_eagerly = True
        assert options.disabled_passes == ("a",)
        assert not options.run_eagerly
        with pytest.raises(dataclasses.FrozenInstanceError):
            options.run_eagerly = True  # type: ignore[misc]

    @pytest.mark.parametrize("folding, expected", [(None, True), (True, True), (False, False)])
    @pytest.mark.parametrize("level", ["O1", "O3"])
    def test_the_level_leaves_folding_on(self, level, folding, expected):
        config = CompilerConfig()
        config.ge_config.oo_level = level
        config.ge_config.oo_constant_folding = folding
        config.ge_config.oo_dead_code_elimination = folding
        options = Options.from_config(config)
        assert options.oo_constant_folding is expected
        assert options.oo_dead_code_elimination is expected

    def test_level_o1_sorts_stably(self):
        config = CompilerConfig()
        config.experimental_config.topology_sorting_strategy = "BFS"
        assert Options.from_config(config).topology_sorting_strategy == "BFS"
        config.ge_config.oo_level = "O1"
        assert Options.from_config(config).topology_sorting_strategy == "StableRDFS"

    @pytest.mark.parametrize("value", [0, 1])
    def test_a_lower_limit_of_0_or_1_acts_as_2_with_a_warning(self, value):
        config = CompilerConfig()
        config.experimental_config.static_model_ops_lower_limit = value
        with pytest.warns(UserWarning, match="acts as 2") as caught:
            assert Options.from_config(config).static_model_ops_lower_limit == 2
        assert [str(warning.message) for warning in caught] == [
            f"config.experimental_config.static_model_ops_lower_limit = {value} is not supported and acts as 2"
        ]
        assert config.experimental_config.static_model_ops_lower_limit == value

    @pytest.mark.parametrize("value", [None, -1, 2, 3])
    def test_other_lower_limits_stay(self, value):
        config = CompilerConfig()
        config.experimental_config.static_model_ops_lower_limit = value
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert Options.from_config(config).static_model_ops_lower_limit == value

    @pytest.mark.parametrize(
        "path, text",
        [
            ("ge_config.aicore_num", "24"),
            ("ge_config.aicore_num", "a|b"),
            ("ge_config.optimization_switch", "A"),
            ("dump_config.dump_step", "5-3"),
        ],
    )
    def test_texts_are_checked_here_and_not_at_assignment(self, path, text):
        config = CompilerConfig()
        config.assign(path, text)
        with pytest.raises(ConfigValueError, match=re.escape(f"config.{path} = {text!r}")):
            Options.from_config(config)

    def test_a_file_that_was_removed(self, tmp_path):
        file = tmp_path / "switches.cfg"
        file.touch()
        config = CompilerConfig()
        config.fusion_config.fusion_switch_file = str(file)
        file.unlink()
        with pytest.raises(ConfigFileNotFoundError) as caught:
            Options.from_config(config)
        assert str(caught.value) == dedent(
            f"""\
            The file that an option names cannot be read [TA103] ERR03005
              why:
                config.fusion_config.fusion_switch_file = {str(file)!r}
                [Errno 2] No such file or directory: {str(file)!r}"""
        )

    def test_the_key_follows_the_content_of_files(self, tmp_path):
        file = tmp_path / "switches.cfg"
        config = CompilerConfig()
        keys = set()
        for content in ("{}", "{ }", "{}"):
            file.write_text(content)
            config.fusion_config.fusion_switch_file = str(file)
            options = Options.from_config(config)
            assert isinstance(options.fusion_switch_file, InputFile)
            keys.add(options.cache_key())
        assert len(keys) == 2

    def test_the_key_follows_the_code_of_passes(self):
        config = CompilerConfig()
        config.post_grad_custom_pre_pass = a_pass
        first = Options.from_config(config)
        config.post_grad_custom_pre_pass = another_pass
        second = Options.from_config(config)
        assert first.cache_key() != second.cache_key()
        assert first != second
        assert isinstance(second.post_grad_custom_pre_pass, UserFunction)
        assert second.post_grad_custom_pre_pass(None, [], config) == 2

    @pytest.mark.parametrize("mode", ["npugraph_ex", "reduce-overhead"])
    def test_capture_mode_by_the_old_spelling(self, mode):
        config = CompilerConfig()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            config.mode = mode
        config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass = True
        config.debug.aclgraph.static_capture_size_limit = 2
        options = Options.from_config(config)
        assert options.mode == "npugraph_ex"
        assert options.capture == CaptureOptions(inplace_pass=False, capture_limit=2)

    def test_both_spellings_give_the_same(self):
        nested, flat = CompilerConfig(), NpuGraphExConfig()
        nested.mode = "npugraph_ex"
        nested.debug.run_eagerly = flat.force_eager = True
        nested.dump_config.enable_dump = flat.dump_tensor_data = True
        nested.experimental_config.frozen_parameter = flat.frozen_parameter = True
        nested.experimental_config.remove_noop_ops = flat.remove_noop_ops = False
        assert Options.from_config(nested) == Options.from_npugraph_ex(flat)

    def test_ge_mode_reads_nothing_of_capture_mode(self):
        config = CompilerConfig()
        config.debug.aclgraph.clone_input = False
        assert Options.from_config(config).capture == CaptureOptions()

    def test_ranks_dump_to_their_directories(self, tmp_path):
        config = CompilerConfig()
        config.dump_config.enable_dump = True
        config.dump_config.dump_path = str(tmp_path)
        options = Options.from_config(config, rank_directory="worldsize2_global_rank1")
        assert ("ge.exec.dumpPath", f"{tmp_path}/worldsize2_global_rank1") in options.process_strings
        assert options.dump.dump_path == str(tmp_path)


class TestFromNpuGraphEx:
    @pytest.mark.parametrize("row", [pytest.param(row, id=row.path) for row in CAPTURE_MODE if row.path != "mode"])
    def test_every_option_is_in_the_options_and_in_the_key(self, row, tmp_path):
        before = Options.from_npugraph_ex(NpuGraphExConfig())
        config = NpuGraphExConfig.from_options({row.path: other_value(row, tmp_path)})
        after = Options.from_npugraph_ex(config)
        assert after != before
        assert after.cache_key() != before.cache_key()
        assert after == Options.from_npugraph_ex(config)
        assert hash(after) == hash(Options.from_npugraph_ex(config))

    def test_defaults(self):
        options = Options.from_npugraph_ex(NpuGraphExConfig())
        assert options.mode == "npugraph_ex"
        assert options.capture == CaptureOptions()
        assert options.capture.clone_output is None
        assert options.process_strings == ()

    def test_super_kernel_options_become_texts(self):
        config = NpuGraphExConfig.from_options({"super_kernel_optimize_options": {"a": [1, 2], "b": True}})
        assert Options.from_npugraph_ex(config).capture.super_kernel_optimize_options == (("a", "1,2"), ("b", "1"))

    def test_super_kernel_options_are_checked(self):
        config = NpuGraphExConfig.from_options({"super_kernel_debug_options": {"a": None}})
        with pytest.raises(ConfigValueError, match=r"npugraph_ex\.super_kernel_debug_options"):
            Options.from_npugraph_ex(config)

    def test_dump(self, tmp_path):
        config = NpuGraphExConfig.from_options({"dump_tensor_data": True, "data_dump_dir": str(tmp_path)})
        options = Options.from_npugraph_ex(config, rank_directory="r")
        assert dict(options.graph_strings) == {
            "frozen_parameter": "0",
            "aclgraph.enableDump": "1",
            "aclgraph.dumpPath": f"{tmp_path}/r",
            "aclgraph.dumpStage": "optimized",
        }
        assert options.dump.dump_path == str(tmp_path)


def test_options_can_be_keys_and_travel_to_other_processes():
    options = Options(pass_fuel=3, post_grad_custom_pre_pass=UserFunction.of(a_pass))
    again = pickle.loads(pickle.dumps(options))  # noqa: S301, TID251  our own bytes
    assert again == options
    assert {options: 1}[again] == 1
    assert again.cache_key() == options.cache_key()


def test_the_key_is_the_same_in_another_process(tmp_path):
    code = dedent(
        """\
        from torchair.config import CompilerConfig, Options

        LIMIT = 3

        def helper(node):
            return {"a", "b", "c"} and LIMIT

        def a_pass(gm, example_inputs, config):
            return [helper(node) for node in gm.graph.nodes if node.op in {"call_function", "output"}]

        config = CompilerConfig()
        config.post_grad_custom_pre_pass = a_pass
        print(Options.from_config(config).cache_key())
        """
    )
    script = tmp_path / "script.py"
    script.write_text(code)

    def key(seed: str) -> str:
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        return subprocess.run(
            [sys.executable, script], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert key("1") == key("2")
    first = key("1")
    script.write_text(code.replace("LIMIT = 3", "LIMIT = 4"))
    assert key("1") != first
    assert "post_grad_custom_pre_pass = function " in first


def test_the_key_reads_well():
    lines = Options(disabled_passes=("a",)).cache_key().splitlines()
    assert lines[0] == "mode = 'max-autotune'"
    assert "disabled_passes = ('a',)" in lines
    assert "capture.capture_limit = 64" in lines
