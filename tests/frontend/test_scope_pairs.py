"""Markers of scopes in pairs, and the stream of each node."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import fx

from torchair.errors import ScopeError
from torchair.frontend.scope_pairs import check_scopes, stream_labels
from torchair.torchops.scopes import scope_enter, scope_exit

_library = torch.library.Library("scope_pair_tests", "DEF")
_library.define("super_kernel_scope_begin(str name) -> ()")
_library.define("super_kernel_scope_end(str name) -> ()")
ops: Any = torch.ops.scope_pair_tests

BEGIN, END = ops.super_kernel_scope_begin.default, ops.super_kernel_scope_end.default
ENTER, EXIT = torch.ops.air.scope_enter.default, torch.ops.air.scope_exit.default


def graph(*calls: tuple[Any, ...]) -> fx.Graph:
    made = fx.Graph()
    x = made.placeholder("x")
    for target, *args in calls:
        x = made.call_function(target, tuple(x if a == "x" else a for a in args))
    made.output((x,))
    return made


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [(ENTER, ["a"], ["b"]), (ENTER, [], []), (EXIT,), (EXIT,)],
        [(BEGIN, "a"), (BEGIN, "b"), (END, "a"), (END, "b")],
        [(BEGIN, "a"), (BEGIN, "a"), (END, "a"), (END, "a")],
        [(BEGIN, "a"), (ENTER, [], []), (END, "a"), (EXIT,)],
    ],
)
def test_pairs(calls: list[Any]) -> None:
    check_scopes(graph(*calls))


@pytest.mark.parametrize(
    "calls, why",
    [
        ([(ENTER, ["a"], ["b"])], "scope_enter_default(['a'], ['b']): the scope is never closed"),
        ([(EXIT,)], "scope_exit_default: a scope is closed that was not opened"),
        ([(EXIT,), (ENTER, [], [])], "scope_exit_default: a scope is closed that was not opened"),
        (
            [(BEGIN, "a"), (END, "b")],
            "super_kernel_scope_end_default('b',): a range for a super kernel is closed that was not opened",
        ),
        (
            [(BEGIN, "a"), (END, "a"), (BEGIN, "c")],
            "super_kernel_scope_begin_default_1('c',): the range for a super kernel is never closed",
        ),
    ],
)
def test_what_has_no_partner(calls: list[Any], why: str) -> None:
    with pytest.raises(ScopeError) as caught:
        check_scopes(graph(*calls))
    assert why in caught.value.why
    assert "graph break" in caught.value.fix
    assert "custom pass" in caught.value.fix


def test_stream_labels() -> None:
    neg = torch.ops.aten.neg.default
    made = graph(
        (neg, "x"),
        (ENTER, ["_user_stream_label", "other"], ["s", "1"]),
        (neg, "x"),
        (ENTER, ["other"], ["2"]),
        (neg, "x"),
        (EXIT,),
        (ENTER, ["_user_stream_label"], ["t"]),
        (neg, "x"),
        (EXIT,),
        (EXIT,),
        (neg, "x"),
    )
    labels = stream_labels(made)
    assert [labels.get(n, "") for n in made.nodes if n.target is neg] == ["", "s", "s", "t", ""]
    assert scope_enter is not None
    assert scope_exit is not None
