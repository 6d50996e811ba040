"""Capture mode's options as a dictionary, their old spelling, and what GE mode makes of them."""

from __future__ import annotations

import warnings
from textwrap import dedent

import pytest

from torchair.config import CompilerConfig, NpuGraphExConfig, with_foreign_options
from torchair.config.npugraph_ex_config import OLD_SPELLING, OPPOSITES, from_old_spelling
from torchair.errors import ConfigTypeError, ConfigValueError, UnknownOptionError


def a_pass(gm, example_inputs, config):
    """A pass of the user's."""


OTHER_VALUES = {
    "force_eager": True,
    "capture_limit": 3,
    "clone_input": False,
    "clone_output": False,
    "device_semantics": True,
    "verify_every": 4,
    "pass_fuel": 2,
    "disabled_passes": ["remove-noop-ops"],
    "use_graph_pool": (0, 7),
    "reuse_graph_pool_in_same_fx": False,
    "frozen_parameter": True,
    "inplace_pass": False,
    "input_inplace_pass": False,
    "remove_noop_ops": False,
    "remove_cat_ops": False,
    "pattern_fusion_pass": False,
    "post_grad_custom_pre_pass": a_pass,
    "post_grad_custom_post_pass": a_pass,
    "static_kernel_compile": True,
    "disable_static_kernel_compile_cache": True,
    "super_kernel_optimize": True,
    "super_kernel_optimize_options": {"a": 1},
    "super_kernel_debug_options": {"b": 2},
    "dump_tensor_data": True,
    "data_dump_stage": "original",
    "data_dump_dir": ".",
    "deadlock_check": True,
    "_vllm_aclnn_static_kernel_sym_index": 2,
    "_vllm_aclnn_static_kernel_sym_range": [1, 2],
}


def test_from_options_sets_what_is_given():
    config = NpuGraphExConfig.from_options(OTHER_VALUES)
    assert {
        option.path.partition(".")[2]: option.raw for option in config.walk() if not option.is_default
    } == OTHER_VALUES


@pytest.mark.parametrize("options", [None, {}])
def test_no_options_are_the_defaults(options):
    assert NpuGraphExConfig.from_options(options) == NpuGraphExConfig()


def test_all_unknown_options_are_named_together():
    with pytest.raises(UnknownOptionError) as caught:
        NpuGraphExConfig.from_options({"clone_inputs": True, "clone_output": True, "graph_pool": None, 3: 4})  # type: ignore[dict-item]
    names = ", ".join(NpuGraphExConfig.names())
    assert str(caught.value) == dedent(
        f"""\
        No option has that name [TA104] ERR03005
          why:
            npugraph_ex has no option 'clone_inputs'
            npugraph_ex has no option 'graph_pool'
            npugraph_ex has no option '3'
            its options: {names}
          fix:
            did you mean npugraph_ex.clone_input?
            did you mean npugraph_ex.use_graph_pool?"""
    )


def test_methods_are_no_options():
    with pytest.raises(UnknownOptionError):
        NpuGraphExConfig.from_options({"walk": 1})


def test_options_that_are_no_dictionary():
    with pytest.raises(ConfigTypeError) as caught:
        NpuGraphExConfig.from_options(["clone_input"])  # type: ignore[arg-type]
    assert str(caught.value) == dedent(
        """\
        options takes a dictionary [TA102] ERR03005
          why:
            options = ['clone_input']"""
    )


class TestOldSpelling:
    def test_is_there_for_all_but_these(self):
        missing = set(NpuGraphExConfig.names()) - set(OLD_SPELLING)
        assert missing == {"mode", "force_recapture", "capture_error_mode"}
        assert set(OTHER_VALUES) == set(OLD_SPELLING)

    @pytest.mark.parametrize("name", OLD_SPELLING)
    def test_means_the_same(self, name):
        config = CompilerConfig()
        assert from_old_spelling(config) == NpuGraphExConfig()
        value = OTHER_VALUES[name]
        config.assign(OLD_SPELLING[name], not value if name in OPPOSITES else value)
        assert from_old_spelling(config) == NpuGraphExConfig.from_options({name: value})

    @pytest.mark.parametrize(
        "name, path",
        [
            ("force_eager", "debug.run_eagerly"),
            ("inplace_pass", "debug.aclgraph.disable_reinplace_inplaceable_ops_pass"),
            ("input_inplace_pass", "debug.aclgraph.disable_reinplace_input_mutated_ops_pass"),
            ("reuse_graph_pool_in_same_fx", "debug.aclgraph.disable_mempool_reuse_in_same_fx"),
            ("capture_limit", "debug.aclgraph.static_capture_size_limit"),
            ("clone_input", "debug.aclgraph.clone_input"),
            ("clone_output", "debug.aclgraph.enable_output_clone"),
            ("remove_cat_ops", "debug.aclgraph.remove_cat_ops"),
            ("use_graph_pool", "aclgraph_config.use_custom_pool"),
            ("static_kernel_compile", "experimental_config.aclgraph._aclnn_static_shape_kernel"),
            ("dump_tensor_data", "dump_config.enable_dump"),
            ("data_dump_dir", "dump_config.dump_path"),
            ("remove_noop_ops", "experimental_config.remove_noop_ops"),
            ("pattern_fusion_pass", "experimental_config.pattern_fusion_pass"),
            ("frozen_parameter", "experimental_config.frozen_parameter"),
        ],
    )
    def test_is_the_one_of_the_specification(self, name, path):
        assert OLD_SPELLING[name] == path
        assert (name in OPPOSITES) is ("disable" in path)


class TestOptionsInGeMode:
    def test_are_set_on_a_copy_with_a_warning(self):
        config = CompilerConfig()
        with pytest.warns(UserWarning, match="options=") as caught:
            changed = with_foreign_options(
                config, {"inplace_pass": False, "frozen_parameter": 1, "force_recapture": True}
            )
        (text,) = (str(warning.message) for warning in caught)
        assert text == (
            'options= is meant for the backend "npugraph_ex"; in GE mode set them on the CompilerConfig '
            "(inplace_pass: use config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass; "
            "frozen_parameter: use config.experimental_config.frozen_parameter; force_recapture has no effect here)"
        )
        assert config == CompilerConfig()
        assert repr(changed) == (
            "CompilerConfig(debug.aclgraph.disable_reinplace_inplaceable_ops_pass=True, "
            "experimental_config.frozen_parameter=True)"
        )

    def test_the_mode_does_not_change(self):
        with pytest.warns(UserWarning, match="mode has no effect here"):
            assert with_foreign_options(CompilerConfig(), {"mode": "npugraph_ex"}).mode == "max-autotune"

    @pytest.mark.parametrize("options", [None, {}])
    def test_none_leave_the_configuration(self, options):
        config = CompilerConfig()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert with_foreign_options(config, options) is config

    def test_unknown_and_wrong_ones_are_errors(self):
        with pytest.raises(UnknownOptionError, match=r"'triton\.cudagraphs'"):
            with_foreign_options(CompilerConfig(), {"triton.cudagraphs": True})
        with pytest.raises(ConfigValueError, match="capture_limit = 0"):
            with_foreign_options(CompilerConfig(), {"capture_limit": 0})
