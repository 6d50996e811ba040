"""Every option of both configurations: its default, values that it takes, and values that it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from tests.config.catalogue import CAPTURE_MODE, DIR, FILE, GE_MODE, JSON, MISSING, Row

from torchair.config import CompilerConfig, NpuGraphExConfig
from torchair.config.option import OptionGroup
from torchair.errors import ConfigFileNotFoundError, ConfigTypeError, ConfigValueError

ROWS = [(CompilerConfig, row) for row in GE_MODE] + [(NpuGraphExConfig, row) for row in CAPTURE_MODE]
EACH = pytest.mark.parametrize(
    "kind, row", ROWS, ids=[f"{'' if kind is CompilerConfig else 'npugraph_ex.'}{row.path}" for kind, row in ROWS]
)


@pytest.fixture
def real(tmp_path):
    """Give the function that puts a path in the place of each placeholder."""
    (tmp_path / "file.cfg").write_text("{}")
    (tmp_path / "file.json").write_text("{}")
    names = {FILE: "file.cfg", JSON: "file.json", DIR: "", MISSING: "missing"}

    def replace(value: Any) -> Any:
        known = isinstance(value, object) and any(value is key for key in names)
        return str(tmp_path / names[value]) if known else value

    return replace


@pytest.mark.parametrize("kind, rows", [(CompilerConfig, GE_MODE), (NpuGraphExConfig, CAPTURE_MODE)])
def test_there_are_these_options_and_no_others(kind: type[OptionGroup], rows: list[Row]):
    # Options of a group come before or after those of the groups inside it, which is no part of the interface.
    found = [option.path.partition(".")[2] for option in kind().walk()]
    assert sorted(found) == sorted(row.path for row in rows)


@EACH
def test_default(kind: type[OptionGroup], row: Row):
    option = kind().lookup(row.path)
    assert option.raw == row.default
    assert type(option.raw) is type(row.default)
    assert option.default == row.default
    assert option.is_default


@EACH
def test_a_good_value_is_stored(kind: type[OptionGroup], row: Row, real):
    for value in map(real, row.good):
        config = kind()
        if value == "reduce-overhead":
            with pytest.warns(DeprecationWarning, match="reduce-overhead"):
                config.assign(row.path, value)
        else:
            config.assign(row.path, value)
        stored = config.lookup(row.path)
        empty = value is None and isinstance(row.default, list)
        assert stored == ([] if empty else value)
        changed = [option.path for option in config.walk() if not option.is_default]
        assert changed == ([] if stored.raw == row.default else [stored.path])
        assert (config == kind()) is (not changed), "every option takes part in the comparison of configurations"


@EACH
def test_a_bad_value_is_refused_with_the_option_the_value_and_what_is_allowed(kind: type[OptionGroup], row: Row, real):
    for value in map(real, row.bad):
        config = kind()
        with pytest.raises(row.error) as caught:
            config.assign(row.path, value)
        first, why, given, allowed = str(caught.value).splitlines()[:4]
        code = {ConfigValueError: "TA101", ConfigTypeError: "TA102", ConfigFileNotFoundError: "TA103"}[row.error]
        assert first == f"An option was given a value that it does not accept [{code}] ERR03005"
        assert why == "  why:"
        shown = repr(value) if len(repr(value)) < 200 else "'xxx"
        assert given.startswith(f"    {config.lookup(row.path).path} = {shown}")
        assert allowed.startswith("    allowed: ")
        assert config == kind(), "a refused value leaves the configuration as it was"


@EACH
def test_the_default_can_be_assigned_again(kind: type[OptionGroup], row: Row, real):
    config = kind()
    for value in map(real, row.good):
        if value != "reduce-overhead":
            config.assign(row.path, value)
    config.assign(row.path, row.default)
    assert config == kind()


@EACH
def test_every_option_says_what_it_does(kind: type[OptionGroup], row: Row):
    doc = kind().lookup(row.path).spec.doc
    assert doc.endswith(".")
    assert len(doc) > 10
