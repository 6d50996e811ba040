"""Texts that are checked when a graph is compiled."""

from __future__ import annotations

import re
import warnings
from textwrap import dedent

import pytest
from hypothesis import given, strategies as st

from torchair.config.texts import (
    SuperKernelOptions,
    check_iterations,
    parse_core_numbers,
    parse_super_kernel_options,
    parse_switches,
    super_kernel_pairs,
    warn_unknown_passes,
)
from torchair.errors import ConfigValueError


class TestCoreNumbers:
    @pytest.mark.parametrize(
        "text, numbers",
        [
            (None, (None, None)),
            ("24|48", (24, 48)),
            ("|48", (None, 48)),
            ("24|", (24, None)),
            ("|", (None, None)),
            ("0|0", (0, 0)),
        ],
    )
    def test_good(self, text, numbers):
        assert parse_core_numbers(text) == numbers

    @pytest.mark.parametrize("text", ["", "24", "24|48|1", "a|b", "-1|2", " 24|48", "24|48\n", "24,48", "\u0663|1"])
    def test_bad(self, text):
        with pytest.raises(ConfigValueError) as caught:
            parse_core_numbers(text)
        assert str(caught.value) == (
            "The text of an option cannot be read [TA101] ERR03005\n"
            "  why:\n"
            f"    config.ge_config.aicore_num = {text!r}\n"
            "    allowed: two numbers separated by '|', either may be left out\n"
            "  fix:\n"
            "    for example '24|48'"
        )

    @given(st.text(alphabet="0123456789| -x\n", max_size=10))
    def test_the_form_is_the_one_of_the_specification(self, text):
        if re.fullmatch(r"\d*\|\d*", text):
            numbers = parse_core_numbers(text)
            assert numbers == tuple(int(part) if part else None for part in text.split("|"))
        else:
            with pytest.raises(ConfigValueError):
                parse_core_numbers(text)


class TestSwitches:
    def test_good(self):
        assert parse_switches(None) == ()
        assert parse_switches("") == ()
        assert parse_switches("A:on") == (("A", True),)
        text = "In-placeAddRmsNormFusionPass:off;clip_by_norm_nodivsquaresum:on"
        assert parse_switches(text) == (
            ("In-placeAddRmsNormFusionPass", False),
            ("clip_by_norm_nodivsquaresum", True),
        )

    def test_all_problems_are_named_together(self):
        with pytest.raises(ConfigValueError) as caught:
            parse_switches("A:on;B;C:maybe;A:off;:on;D:off")
        assert str(caught.value) == dedent(
            """\
            The text of an option cannot be read [TA101] ERR03005
              why:
                config.ge_config.optimization_switch = 'A:on;B;C:maybe;A:off;:on;D:off'
                'B' is not <pass name>:on or <pass name>:off
                'C:maybe' is not <pass name>:on or <pass name>:off
                'A' is named twice
                ':on' is not <pass name>:on or <pass name>:off
                allowed: <pass name>:on or :off, separated by ';'
              fix:
                for example 'SoftmaxFusionPass:on;CastRemoveFusionPass:off'"""
        )

    @pytest.mark.parametrize("text", ["A:on;", ";A:on", "A:On", "A=on", "A:on,B:off", "A :on", "A: on", "A:on:off"])
    def test_bad(self, text):
        with pytest.raises(ConfigValueError, match="optimization_switch"):
            parse_switches(text)

    @given(st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True), st.booleans(), max_size=5))
    def test_round_trip(self, switches):
        text = ";".join(f"{name}:{'on' if state else 'off'}" for name, state in switches.items())
        assert dict(parse_switches(text)) == switches

    def test_unknown_passes_are_warned_about_together(self):
        switches = (("SoftmaxFusionPass", True), ("softmaxFusionPass", True), ("fold", False), ("mine", False))
        with pytest.warns(UserWarning, match="unknown passes") as caught:
            warn_unknown_passes(switches, {"mine"})
        assert [str(warning.message) for warning in caught] == [
            "config.ge_config.optimization_switch names unknown passes, which has no effect: softmaxFusionPass, fold"
        ]

    def test_known_passes_are_not_warned_about(self):
        names = ("AABiasaddConvFusion", "ZSplitVFusionPass", "AutomaticUbFusion", "TbePool2dQuantFusionPass", "mine")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warn_unknown_passes(tuple((name, True) for name in names), ["mine"])


def test_iterations():
    assert check_iterations("") == ""
    assert check_iterations("0|3-5|7-7") == "0|3-5|7-7"
    with pytest.raises(ConfigValueError) as caught:
        check_iterations("0|5-3")
    assert str(caught.value) == dedent(
        """\
        The text of an option cannot be read [TA101] ERR03005
          why:
            config.dump_config.dump_step = '0|5-3'
            the range 5-3 ends before it starts
          fix:
            write 3-5"""
    )


class TestSuperKernel:
    def test_text(self):
        text = (
            "feed-sync-all=1:stream-fusion=1:strict-scope-check=abort:dcci-before-kernel-start=Add,Mul:"
            "dcci-after-kernel-end=Sub:dcci-disable-on-kernel=MatMulV2:debug-aic-num=2:debug-aiv-num=4"
        )
        assert parse_super_kernel_options(text) == SuperKernelOptions(
            feed_sync_all=True,
            stream_fusion=True,
            strict_scope_check="abort",
            dcci_before_kernel_start=("Add", "Mul"),
            dcci_after_kernel_end=("Sub",),
            dcci_disable_on_kernel=("MatMulV2",),
            debug_aic_num=2,
            debug_aiv_num=4,
        )
        assert parse_super_kernel_options("") == SuperKernelOptions()
        assert parse_super_kernel_options("stream-fusion=0") == SuperKernelOptions()

    def test_all_problems_are_named_together(self):
        with pytest.raises(ConfigValueError) as caught:
            parse_super_kernel_options("stream-fuse=1:stream-fusion=2:debug-aic-num=0:feed-sync-all=1:feed-sync-all=0:")
        keys = (
            "feed-sync-all, stream-fusion, strict-scope-check, dcci-before-kernel-start, dcci-after-kernel-end, "
            "dcci-disable-on-kernel, debug-aic-num, debug-aiv-num"
        )
        assert str(caught.value) == dedent(
            f"""\
            The text of an option cannot be read [TA101] ERR03005
              why:
                super_kernel options = 'stream-fuse=1:stream-fusion=2:debug-aic-num=0:feed-sync-all=1:feed-sync-all=0:'
                'stream-fuse' is no option; there are: {keys}
                stream-fusion = '2'; allowed: 0 or 1
                debug-aic-num = '0'; allowed: a positive number
                'feed-sync-all' is given twice
                '' is no option; there are: {keys}
              fix:
                for example 'stream-fusion=1:strict-scope-check=bypass'"""
        )

    def test_dictionary(self):
        options = {"a": "x", "b": 1, "c": True, "d": ["p", 2], "e": {"k": 1, "l": "m"}, "f": 0.5, "g": []}
        assert super_kernel_pairs("npugraph_ex.super_kernel_optimize_options", options) == (
            ("a", "x"),
            ("b", "1"),
            ("c", "1"),
            ("d", "p,2"),
            ("e", "k=1,l=m"),
            ("f", "0.5"),
            ("g", ""),
        )
        assert super_kernel_pairs("x", None) == ()

    def test_dictionary_with_values_that_cannot_be_written(self):
        with pytest.raises(ConfigValueError) as caught:
            super_kernel_pairs("npugraph_ex.super_kernel_debug_options", {"a": None, 2: 3, "c": [["x"]], "d": {1: 2}})
        assert str(caught.value) == dedent(
            """\
            A dictionary of options cannot be read [TA101] ERR03005
              why:
                npugraph_ex.super_kernel_debug_options = {'a': None, 2: 3, 'c': [['x']], 'd': {1: 2}}
                a = None; allowed: a string, a number, a list or a dictionary of these
                the key 2 is no string
                c = [['x']]; allowed: a string, a number, a list or a dictionary of these
                d = {1: 2}; allowed: a string, a number, a list or a dictionary of these"""
        )
