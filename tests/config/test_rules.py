"""The full text of each kind of refusal, and properties of the rules."""

from __future__ import annotations

import pickle
import re
from importlib import metadata
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from hypothesis import given, strategies as st

from torchair.config import CompilerConfig, NpuGraphExConfig
from torchair.config.rules import (
    INT64_MAX,
    Choice,
    ExistingDirectory,
    ExistingFile,
    Flag,
    IntList,
    IntRange,
    JsonFile,
    PathText,
    Pattern,
    Text,
    TextList,
    show,
)
from torchair.errors import ConfigFileNotFoundError, ConfigTypeError, ConfigValueError, TorchAirError

anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.lists(st.integers(), max_size=3)
)

FULL_TEXTS = [
    (
        "mode",
        "max_autotune",
        """\
        An option was given a value that it does not accept [TA101] ERR03005
          why:
            config.mode = 'max_autotune'
            allowed: 'max-autotune', 'reduce-overhead', 'npugraph_ex'
          fix:
            did you mean 'max-autotune'?""",
    ),
    (
        "debug.graph_dump.type",
        "onnx",
        """\
        An option was given a value that it does not accept [TA101] ERR03005
          why:
            config.debug.graph_dump.type = 'onnx'
            allowed: 'txt', 'pbtxt', 'py', or None""",
    ),
    (
        "debug.run_eagerly",
        "True",
        """\
        An option was given a value that it does not accept [TA101] ERR03005
          why:
            config.debug.run_eagerly = 'True'
            allowed: True, False""",
    ),
    (
        "engine",
        "inducter",
        """\
        An option was given a value that it does not accept [TA101] ERR03005
          why:
            config.engine = 'inducter'
            allowed: 'auto', 'reference', 'inductor', 'native' (more from the entry-point group 'torchair.engines')
          fix:
            did you mean 'inductor'?""",
    ),
    (
        "experimental_config.static_model_ops_lower_limit",
        -2,
        """\
        An option was given a value that it does not accept [TA101] ERR03005
          why:
            config.experimental_config.static_model_ops_lower_limit = -2
            allowed: int in [-1, 9223372036854775807], or None""",
    ),
    (
        "experimental_config.aclgraph._vllm_aclnn_static_kernel_sym_range",
        [1, "2"],
        """\
        An option was given a value that it does not accept [TA102] ERR03005
          why:
            config.experimental_config.aclgraph._vllm_aclnn_static_kernel_sym_range = [1, '2']
            allowed: list or tuple of int, or None (an empty list)""",
    ),
    (
        "debug.disabled_passes",
        "fold-constants",
        """\
        An option was given a value that it does not accept [TA102] ERR03005
          why:
            config.debug.disabled_passes = 'fold-constants'
            allowed: list or tuple of str, or None (an empty list)
          fix:
            put it into a list: ['fold-constants']""",
    ),
    (
        "ge_config.aicore_num",
        24,
        """\
        An option was given a value that it does not accept [TA102] ERR03005
          why:
            config.ge_config.aicore_num = 24
            allowed: str or None""",
    ),
    (
        "debug.graph_dump.path",
        24,
        """\
        An option was given a value that it does not accept [TA102] ERR03005
          why:
            config.debug.graph_dump.path = 24
            allowed: path as str, or None""",
    ),
    (
        "export.weight_name",
        ["a"],
        """\
        An option was given a value that it does not accept [TA102] ERR03005
          why:
            config.export.weight_name = ['a']
            allowed: dict or None""",
    ),
    (
        "post_grad_custom_pre_pass",
        "my_pass",
        """\
        An option was given a value that it does not accept [TA102] ERR03005
          why:
            config.post_grad_custom_pre_pass = 'my_pass'
            allowed: callable or None""",
    ),
    (
        "fusion_config.fusion_switch_file",
        "/no/such/file.cfg",
        """\
        An option was given a value that it does not accept [TA103] ERR03005
          why:
            config.fusion_config.fusion_switch_file = '/no/such/file.cfg'
            allowed: path of an existing file, or None""",
    ),
    (
        "dump_config.dump_config_path",
        "/no/such/file.json",
        """\
        An option was given a value that it does not accept [TA103] ERR03005
          why:
            config.dump_config.dump_config_path = '/no/such/file.json'
            allowed: path of an existing file whose name ends in .json, or None""",
    ),
    (
        "dump_config.dump_config_path",
        "",
        """\
        An option was given a value that it does not accept [TA101] ERR03005
          why:
            config.dump_config.dump_config_path = ''
            allowed: path of an existing file whose name ends in .json, or None""",
    ),
    (
        "dump_config.dump_path",
        "/no/such/directory",
        """\
        An option was given a value that it does not accept [TA103] ERR03005
          why:
            config.dump_config.dump_path = '/no/such/directory'
            allowed: path of an existing directory""",
    ),
    (
        "dump_config.dump_step",
        "0,3",
        """\
        An option was given a value that it does not accept [TA101] ERR03005
          why:
            config.dump_config.dump_step = '0,3'
            allowed: iterations and ranges of them, separated by '|'; empty for all
          fix:
            for example '0|3-5|10'""",
    ),
    (
        "aclgraph_config.use_custom_pool",
        (1, 2),
        """\
        An option was given a value that it does not accept [TA102] ERR03005
          why:
            config.aclgraph_config.use_custom_pool = (1, 2)
            allowed: graph pool handle (tuple of two ints, at least one of them 0), or None""",
    ),
]


@pytest.mark.parametrize("path, value, text", FULL_TEXTS, ids=[f"{path}={value!r}" for path, value, _ in FULL_TEXTS])
def test_full_text(path, value, text):
    with pytest.raises(TorchAirError) as caught:
        CompilerConfig().assign(path, value)
    assert str(caught.value) == dedent(text)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301, TID251  our own bytes
    assert type(again) is type(caught.value)
    assert str(again) == str(caught.value)


def test_capture_mode_names_its_options_by_the_package():
    with pytest.raises(ConfigValueError) as caught:
        NpuGraphExConfig().capture_limit = 0
    assert str(caught.value) == dedent(
        """\
        An option was given a value that it does not accept [TA101] ERR03005
          why:
            npugraph_ex.capture_limit = 0
            allowed: int in [1, 9223372036854775807]"""
    )


@pytest.mark.parametrize(
    "builtin, path, value",
    [
        (ValueError, "mode", "x"),
        (TypeError, "ge_config.aicore_num", 1),
        (FileNotFoundError, "dump_config.dump_path", "/no/such/directory"),
        (OSError, "dump_config.dump_path", "/no/such/directory"),
    ],
)
def test_errors_are_caught_as_the_builtin_class(builtin, path, value):
    with pytest.raises(builtin, match=re.escape(path)):
        CompilerConfig().assign(path, value)


def test_a_very_long_value_is_cut():
    with pytest.raises(ConfigValueError) as caught:
        CompilerConfig().mode = "x" * 10_000
    assert len(str(caught.value)) < 600


def test_a_value_without_a_truth_value_is_refused():
    for value in (torch.zeros(3), torch.zeros(()), torch.zeros(0)):
        with pytest.raises(ConfigValueError, match=r"config\.mode = tensor"):
            CompilerConfig().mode = value  # type: ignore[assignment]


def test_a_value_whose_repr_raises_is_refused():
    class Broken:
        def __repr__(self):
            raise RuntimeError

    with pytest.raises(ConfigValueError, match=r"config\.mode = <Broken instance at"):
        CompilerConfig().mode = Broken()  # type: ignore[assignment]


def test_an_engine_of_an_installed_package_is_accepted(monkeypatch):
    entry = metadata.EntryPoint("mine", "my_engine:Engine", "torchair.engines")
    monkeypatch.setattr(metadata, "entry_points", lambda group: [entry] if group == "torchair.engines" else [])
    config = CompilerConfig()
    config.engine = "mine"
    assert config.engine == "mine"
    assert config.engine.optional == ["auto", "reference", "inductor", "native", "mine"]
    with pytest.raises(ConfigValueError, match="allowed: 'auto', 'reference', 'inductor', 'native', 'mine'"):
        config.engine = "other"


def test_path_objects_are_paths(tmp_path: Path):
    file = tmp_path / "switches.cfg"
    file.touch()
    config = CompilerConfig()
    config.fusion_config.fusion_switch_file = file  # type: ignore[assignment]
    config.dump_config.dump_path = tmp_path  # type: ignore[assignment]
    config.debug.graph_dump.path = tmp_path  # type: ignore[assignment]
    assert config.fusion_config.fusion_switch_file == str(file)
    assert config.dump_config.dump_path == str(tmp_path)
    assert config.debug.graph_dump.path == str(tmp_path)


def test_the_path_of_a_dump_is_stored_resolved(tmp_path: Path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    monkeypatch.chdir(tmp_path)
    config = CompilerConfig()
    config.debug.graph_dump.path = "link/../link/new"
    assert config.debug.graph_dump.path == str(tmp_path / "a" / "new")


def test_a_path_with_a_null_byte_is_refused():
    with pytest.raises(ConfigValueError, match=r"config\.debug.graph_dump.path"):
        CompilerConfig().debug.graph_dump.path = "a\0b"


RULES = [
    Flag(),
    Choice(("a", "b")),
    IntRange(0, 9),
    IntList(),
    TextList(),
    Text(),
    PathText(),
    ExistingFile(),
    ExistingDirectory(),
    JsonFile(),
    Pattern("a+", "as", "a"),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@given(value=anything)
def test_a_rule_accepts_a_value_or_raises_its_own_errors(rule, value):
    stored, error = None, None
    try:
        stored = rule.convert("config.x", value)
    except (ConfigValueError, ConfigTypeError, ConfigFileNotFoundError) as caught:
        error = caught
    if error is None:
        assert rule.convert("config.x", stored) == stored, "what is stored is accepted again, unchanged"
    else:
        assert error.why == (f"config.x = {show(value)}", f"allowed: {rule.allowed()}")


@given(st.integers(), st.integers(), st.integers())
def test_int_range(low, high, value):
    rule = IntRange(low, high)
    if low <= value <= high:
        assert rule.convert("x", value) == value
    else:
        with pytest.raises(ConfigValueError):
            rule.convert("x", value)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.none() | st.integers(0, 10**6)), max_size=5))
def test_every_list_of_iterations_is_accepted(parts):
    text = "|".join(str(start) if end is None else f"{start}-{end}" for start, end in parts)
    config = CompilerConfig()
    config.dump_config.dump_step = text
    assert config.dump_config.dump_step == text


@given(st.text(alphabet="019-|, x\n", max_size=8))
def test_the_pattern_of_iterations_is_the_grammar(text):
    def is_number(part: str) -> bool:
        return part.isascii() and part.isdigit()

    def is_part(part: str) -> bool:
        ends = part.split("-")
        return len(ends) <= 2 and all(map(is_number, ends))

    config = CompilerConfig()
    if text == "" or all(map(is_part, text.split("|"))):
        config.dump_config.dump_step = text
    else:
        with pytest.raises(ConfigValueError):
            config.dump_config.dump_step = text


@given(st.text(alphabet='aZ_09"/\\. ,;:-\n', max_size=8))
def test_the_pattern_of_layers_is_the_grammar(text):
    ok = set(text) <= set('aZ_09"/\\. ') and text == text.strip(" ")
    config = CompilerConfig()
    if ok:
        config.dump_config.dump_layer = text
    else:
        with pytest.raises(ConfigValueError):
            config.dump_config.dump_layer = text


@given(st.tuples(st.integers(0, INT64_MAX), st.integers(0, INT64_MAX)))
def test_a_graph_pool_has_a_zero(handle):
    config = NpuGraphExConfig()
    if 0 in handle:
        config.use_graph_pool = handle
        assert config.use_graph_pool == handle
    else:
        with pytest.raises(ConfigTypeError):
            config.use_graph_pool = handle
