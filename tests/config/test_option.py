"""How options read, and how groups of them behave."""

from __future__ import annotations

import copy
import functools
import pickle
import subprocess
import sys
import warnings
from textwrap import dedent

import pytest

from torchair.config import CompilerConfig, NpuGraphExConfig
from torchair.errors import ConfigTypeError, UnknownOptionError


def a_pass(gm, example_inputs, config):
    """A pass of the user's."""


class TestOption:
    def test_is_equal_to_its_value(self):
        config = CompilerConfig()
        assert config.mode == "max-autotune"
        assert config.mode != "npugraph_ex"
        assert "max-autotune" == config.mode  # noqa: SIM300  the other direction
        assert config.debug.run_eagerly == False  # noqa: E712  what users write
        assert config.debug.graph_dump.type == None  # noqa: E711  what users write
        assert config.mode in {"max-autotune", "npugraph_ex"}
        assert {config.mode: 1}["max-autotune"] == 1  # type: ignore[index]

    def test_is_equal_to_an_option_of_that_value(self):
        a, b = CompilerConfig(), CompilerConfig()
        assert a.mode == b.mode
        assert hash(a.mode) == hash(b.mode)
        b.mode = "npugraph_ex"
        assert a.mode != b.mode

    def test_is_as_true_as_its_value(self):
        config = CompilerConfig()
        assert config.mode
        assert not config.debug.run_eagerly
        assert not config.ge_config.aicore_num
        assert not config.experimental_config.static_model_ops_lower_limit
        assert config.dump_config.dump_path
        assert not config.dump_config.dump_step

    @pytest.mark.parametrize(
        "path, assigned, value, flat_value",
        [
            ("verify_every", 3, "3", "3"),
            ("device_semantics", True, "1", True),
            ("device_semantics", False, "0", False),
        ],
    )
    def test_value_is_the_engine_form(self, path, assigned, value, flat_value):
        nested, flat = CompilerConfig(), NpuGraphExConfig()
        nested.assign(f"debug.{path}", assigned)
        flat.assign(path, assigned)
        assert nested.lookup(f"debug.{path}").value == value
        assert type(nested.lookup(f"debug.{path}").value) is type(value)
        assert flat.lookup(path).value == flat_value
        assert type(flat.lookup(path).value) is type(flat_value)

    def test_value_of_none_and_text(self):
        config = CompilerConfig()
        assert config.debug.graph_dump.type.value is None
        assert config.mode.value == "max-autotune"
        assert config.debug.run_eagerly.value == "0"

    def test_optional_lists_what_is_allowed(self):
        config = CompilerConfig()
        assert config.mode.optional == ["max-autotune", "reduce-overhead", "npugraph_ex"]
        assert config.debug.run_eagerly.optional == [True, False]
        assert config.debug.graph_dump.type.optional == ["txt", "pbtxt", "py", None]
        assert NpuGraphExConfig().capture_limit.optional == [1, 2**63 - 1]
        assert config.ge_config.aicore_num.optional is None

    def test_prints_as_its_value(self):
        config = CompilerConfig()
        config.debug.verify_every = 5
        assert f"{config.mode}, {config.debug.verify_every}" == "max-autotune, 5"
        assert repr(config.mode) == "<config.mode = 'max-autotune' (default)>"
        assert repr(config.debug.verify_every) == "<config.debug.verify_every = 5>"

    def test_an_option_can_be_assigned_to_another(self):
        a, b = CompilerConfig(), CompilerConfig()
        a.ge_config.oo_level = "O1"
        b.ge_config.oo_level = a.ge_config.oo_level
        assert b.ge_config.oo_level.raw == "O1"

    def test_does_not_change_when_its_option_is_assigned(self):
        config = CompilerConfig()
        before = config.mode
        config.mode = "npugraph_ex"
        assert before == "max-autotune"
        with pytest.raises(AttributeError):
            before.raw = "x"  # type: ignore[misc]

    def test_a_list_equals_the_tuple_that_was_assigned(self):
        config = CompilerConfig()
        config.debug.disabled_passes = ("a", "b")  # type: ignore[assignment]
        assert config.debug.disabled_passes == ("a", "b")
        assert config.debug.disabled_passes == ["a", "b"]
        assert config.debug.disabled_passes != ["a"]

    def test_a_list_that_was_assigned_can_change_without_effect(self):
        names = ["a"]
        config = CompilerConfig()
        config.debug.disabled_passes = names
        names.append("b")
        assert config.debug.disabled_passes == ["a"]

    def test_defaults_are_not_shared(self):
        CompilerConfig().debug.disabled_passes.raw.append("a")
        assert CompilerConfig().debug.disabled_passes == []


class TestGroup:
    def test_unknown_option(self):
        with pytest.raises(UnknownOptionError) as caught:
            CompilerConfig().debug.fx_summary.skip_compiled = True  # type: ignore[attr-defined]
        assert str(caught.value) == dedent(
            """\
            No option has that name [TA104] ERR03005
              why:
                config.debug.fx_summary has no option 'skip_compiled'
                its options: type, skip_compile
              fix:
                did you mean config.debug.fx_summary.skip_compile?"""
        )

    def test_unknown_option_without_anything_like_it(self):
        with pytest.raises(UnknownOptionError) as caught:
            CompilerConfig().inference_config.zzz = True  # type: ignore[attr-defined]
        assert str(caught.value) == dedent(
            """\
            No option has that name [TA104] ERR03005
              why:
                config.inference_config has no option 'zzz'
                its options: dynamic_gears_merge_policy"""
        )

    def test_option_of_another_group(self):
        with pytest.raises(UnknownOptionError) as caught:
            CompilerConfig().experimental_config.aicore_num = "1|1"  # type: ignore[attr-defined]
        assert str(caught.value).endswith("fix:\n    did you mean config.ge_config.aicore_num?")
        with pytest.raises(UnknownOptionError) as caught:
            CompilerConfig().type = "py"  # type: ignore[attr-defined]
        paths = ("config.debug.graph_dump.type", "config.debug.data_dump.type", "config.debug.fx_summary.type")
        assert str(caught.value).endswith(f"did you mean {' or '.join(paths)}?")

    def test_reading_an_unknown_option(self):
        with pytest.raises(UnknownOptionError, match=r"did you mean config\.debug\.run_eagerly"):
            CompilerConfig().debug.run_eager  # type: ignore[attr-defined]

    @pytest.mark.parametrize("builtin", [ValueError, AttributeError])
    def test_unknown_option_is_caught_as(self, builtin):
        with pytest.raises(builtin):
            CompilerConfig().debug.nothing = 1  # type: ignore[attr-defined]
        with pytest.raises(builtin):
            CompilerConfig().debug.nothing  # type: ignore[attr-defined]

    def test_has_attributes_as_python_expects(self):
        config = CompilerConfig()
        assert hasattr(config, "mode")
        assert not hasattr(config, "nothing")
        assert not hasattr(config, "__array__")
        assert getattr(config, "nothing", 1) == 1
        assert {"mode", "debug", "ge_config"} <= set(dir(config))

    def test_a_group_cannot_be_replaced(self):
        config = CompilerConfig()
        with pytest.raises(ConfigTypeError) as caught:
            config.debug = CompilerConfig().debug
        assert str(caught.value) == dedent(
            """\
            A group of options cannot be replaced [TA102] ERR03005
              why:
                config.debug
              fix:
                assign its options one by one: config.debug.<option> = value"""
        )

    def test_an_option_cannot_be_deleted(self):
        config = CompilerConfig()
        with pytest.raises(ConfigTypeError, match=r"config\.mode"):
            del config.mode
        with pytest.raises(UnknownOptionError):
            del config.nothing  # type: ignore[attr-defined]
        assert config.mode == "max-autotune"

    def test_repr_shows_what_was_changed(self):
        config = CompilerConfig()
        assert repr(config) == "CompilerConfig()"
        config.mode = "npugraph_ex"
        config.debug.graph_dump.type = "py"
        assert repr(config) == "CompilerConfig(mode='npugraph_ex', debug.graph_dump.type='py')"
        assert repr(config.debug) == "Debug(debug.graph_dump.type='py')"

    def test_kinds_of_configuration_are_never_equal(self):
        others: list[object] = [NpuGraphExConfig(), 1, None, CompilerConfig().debug]
        assert all(CompilerConfig() != other for other in others)

    def test_deepcopy_is_equal_and_independent(self):
        config = CompilerConfig()
        config.debug.disabled_passes = ["a"]
        config.post_grad_custom_pre_pass = a_pass
        config.ge_config.oo_level = "O1"
        other = copy.deepcopy(config)
        assert other == config
        other.debug.disabled_passes.raw.append("b")
        other.ge_config.oo_level = "O3"
        assert config.debug.disabled_passes == ["a"]
        assert config.ge_config.oo_level == "O1"

    def test_deepcopy_shares_the_users_functions(self):
        class Holder:
            def __deepcopy__(self, memo):
                raise AssertionError("a model must not be copied")

            def run(self, gm, example_inputs, config):
                """A pass that belongs to an object."""

        holder = Holder()
        config = CompilerConfig()
        config.post_grad_custom_pre_pass = holder.run
        config.post_grad_custom_post_pass = functools.partial(a_pass, holder)
        assert copy.deepcopy(config) == config

    @pytest.mark.parametrize("kind", [CompilerConfig, NpuGraphExConfig])
    def test_pickle(self, kind):
        config = kind()
        config.post_grad_custom_pre_pass = a_pass
        config.mode = "npugraph_ex"
        again = pickle.loads(pickle.dumps(config))  # noqa: S301, TID251  our own bytes
        assert again == config
        with pytest.raises(UnknownOptionError):
            again.nothing = 1

    def test_a_deprecated_value_warns_at_the_users_line(self):
        config = CompilerConfig()
        with pytest.warns(DeprecationWarning, match="reduce-overhead") as caught:
            config.mode = "reduce-overhead"
        (text,) = (str(warning.message) for warning in caught)
        assert text == (
            "config.mode = 'reduce-overhead' is deprecated: to capture and replay, use "
            'torch.compile(model, backend="npugraph_ex")'
        )
        assert caught[0].filename == __file__

    def test_copying_a_configuration_does_not_warn_again(self):
        config = CompilerConfig()
        with pytest.warns(DeprecationWarning, match="reduce-overhead"):
            config.mode = "reduce-overhead"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert copy.deepcopy(config).mode == "reduce-overhead"


def test_configuration_and_logs_import_no_torch():
    code = "import sys, torchair.config, torchair.logs, torchair.errors; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_upstreams_paths_lead_to_the_same_objects():
    from torchair.configs.compiler_config import CompilerConfig as Longer
    from torchair.core.utils import EVENT_LEVEL, logger
    from torchair.logs import logger as ours

    assert Longer is CompilerConfig
    assert logger is ours
    assert EVENT_LEVEL == 35
