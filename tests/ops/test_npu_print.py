"""``npu_print``: the text, the order, and what it refuses, in eager mode and in graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import torchair
from torchair import _torch_compat
from torchair.errors import ArgumentError, ArgumentTypeError

#: Tests pass what annotations forbid.
npu_print: Any = torchair.ops.npu_print


def compiled(program: Callable[..., Any], *, engine: str = "reference", dynamic: bool | None = None) -> Any:
    config = torchair.CompilerConfig()
    config.engine = engine
    backend = torchair.get_npu_backend(compiler_config=config)
    return torch.compile(program, backend=backend, fullgraph=True, dynamic=dynamic), backend


VALUES: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    (("hello, tensor:", torch.arange(10)), {}, "hello, tensor: [0 1 2 ... 7 8 9]"),
    (
        ("hello, tensor_detail:", torch.arange(10)),
        {"tensor_detail": True},
        "hello, tensor_detail: tensor([0 1 2 ... 7 8 9], shape=[10], dtype=torch.int64)",
    ),
    ((torch.arange(6),), {}, "[0 1 2 3 4 5]"),
    ((torch.arange(7),), {}, "[0 1 2 ... 4 5 6]"),
    ((torch.arange(7),), {"summarize_size": 1}, "[0 ... 6]"),
    ((torch.arange(20),), {"summarize_size": -1}, f"[{' '.join(map(str, range(20)))}]"),
    ((torch.tensor(1.5), 2, 0.25, True, "x"), {}, "1.5 2 0.25 True x"),
    ((torch.tensor([1.0, 0.1, 1 / 3, 1e10, 1e-10]),), {}, "[1 0.100000001 0.333333343 10000000000 1.00000001e-10]"),
    ((torch.tensor([1 / 3], dtype=torch.float64),), {}, "[0.333333333]"),
    ((torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0]),), {}, "[nan inf -inf -0]"),
    ((torch.tensor([True, False]),), {}, "[1 0]"),
    ((torch.tensor([0.1], dtype=torch.bfloat16),), {}, "[0.100097656]"),
    ((torch.tensor([0.1], dtype=torch.float16),), {}, "[0.0999755859]"),
    (
        (torch.tensor([0.5], dtype=torch.bfloat16),),
        {"tensor_detail": True},
        "tensor([0.5], shape=[1], dtype=torch.bfloat16)",
    ),
    ((torch.tensor([255, 0], dtype=torch.uint8),), {}, "[255 0]"),
    ((torch.tensor([2**63], dtype=torch.uint64),), {}, "[9223372036854775808]"),
    ((torch.tensor([-(2**63)]),), {}, "[-9223372036854775808]"),
    ((torch.empty(0),), {}, "[]"),
    ((torch.empty(2, 0),), {}, "[[]\n []]"),
    ((torch.arange(6).view(2, 3),), {}, "[[0 1 2]\n [3 4 5]]"),
    (
        (torch.arange(16).view(8, 2),),
        {"summarize_size": 1},
        "[[0 1]\n ...\n [14 15]]",
    ),
    (
        (torch.arange(27).view(3, 3, 3),),
        {"summarize_size": 1},
        "[[[0 ... 2]\n ...\n [6 ... 8]]\n ...\n [[18 ... 20]\n ...\n [24 ... 26]]]",
    ),
    (("braces {} {{}}", torch.tensor(1), "{}"), {}, "braces {} {{}} 1 {}"),
    (
        (torch.tensor(3), torch.tensor([1, 2])),
        {"tensor_detail": True},
        ("tensor(3, shape=[], dtype=torch.int64) tensor([1 2], shape=[2], dtype=torch.int64)"),
    ),
]


@pytest.mark.parametrize(("args", "options", "expected"), VALUES)
def test_eager(args, options, expected, capsys) -> None:
    npu_print(*args, **options)
    assert capsys.readouterr().out == expected + "\n"


@pytest.mark.parametrize("dynamic", [None, True])
def test_graphs_print_the_same(dynamic, capsys) -> None:
    def program(*tensors: Tensor) -> Tensor:
        given = iter(tensors)
        for args, options, _ in VALUES:
            npu_print(*[next(given) if isinstance(a, Tensor) else a for a in args], **options)
        return tensors[0] + 1

    if dynamic and not _torch_compat.dynamo_traces_guard_scalar():
        pytest.skip("Dynamo of this torch cannot make text of a number that is symbolic")
    tensors = [a for args, _, _ in VALUES for a in args if isinstance(a, Tensor)]
    run, backend = compiled(program, dynamic=dynamic)
    run(*tensors)
    assert capsys.readouterr().out == "".join(expected + "\n" for _, _, expected in VALUES)
    graph = backend.graphs[-1].graph
    assert graph.count("PrintV2") == graph.count("StringFormat") == len(VALUES)


def mutating(x: Tensor) -> Tensor:
    npu_print("before", x)
    x.add_(1)
    npu_print("after", x, tensor_detail=True)
    y = x * 2
    npu_print("unused", (y + 1).sum())
    return y


EXPECTED = "before [0 1 2]\nafter tensor([1 2 3], shape=[3], dtype=torch.float32)\nunused 15\n"


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("engine", ["reference", pytest.param("inductor", marks=pytest.mark.slow)])
def test_prints_are_ordered_with_writes(engine, dynamic, capsys) -> None:
    run, _ = compiled(mutating, engine=engine, dynamic=dynamic)
    with torch.no_grad():
        x = torch.arange(3.0)
        assert torch.equal(run(x), torch.tensor([2.0, 4.0, 6.0]))
        assert capsys.readouterr().out == EXPECTED
        assert torch.equal(x, torch.tensor([1.0, 2.0, 3.0]))
        run(torch.arange(3.0))
    assert capsys.readouterr().out == EXPECTED


def test_prints_with_other_backends(capsys) -> None:
    with torch.no_grad():
        torch.compile(mutating, backend="aot_eager", fullgraph=True)(torch.arange(3.0))
    assert capsys.readouterr().out == EXPECTED


def test_prints_in_a_training_graph(capsys) -> None:
    def program(x: Tensor) -> Tensor:
        y = x * 2
        npu_print("y", y)
        return y.sum()

    run, _ = compiled(program)
    x = torch.ones(2, requires_grad=True)
    run(x).backward()
    assert capsys.readouterr().out == "y [2 2]\n"
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((2,), 2.0))


WRONG = [
    (lambda x: npu_print(x, None), ArgumentTypeError, "argument 1 is None, a NoneType"),
    (lambda x: npu_print([x]), ArgumentTypeError, "argument 0 is"),
    (lambda x: npu_print("text", 3), ArgumentError, "npu_print needs at least one tensor"),
    (lambda x: npu_print(), ArgumentError, "it was given nothing"),
    (lambda x: npu_print(x, summarize_size=1.5), ArgumentTypeError, "summarize_size of npu_print is an int"),
    (lambda x: npu_print(x, summarize_size=True), ArgumentTypeError, "summarize_size of npu_print is an int"),
    (lambda x: npu_print(x, summarize_size=0), ArgumentError, "summarize_size of npu_print is out of range"),
    (lambda x: npu_print(x, summarize_size=-2), ArgumentError, "it was given -2"),
    (lambda x: npu_print(x, tensor_detail=1), ArgumentTypeError, "tensor_detail of npu_print is a bool"),
]


@pytest.mark.parametrize(("call", "kind", "words"), WRONG)
def test_wrong_arguments(call, kind, words, capsys) -> None:
    with pytest.raises(kind) as caught:
        call(torch.ones(2))
    assert words in str(caught.value)
    assert isinstance(caught.value, TypeError if kind is ArgumentTypeError else ValueError)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("call", "kind", "words"), [WRONG[0], WRONG[2], WRONG[6]])
def test_wrong_arguments_in_a_compiled_function(call, kind, words) -> None:
    run, _ = compiled(lambda x: (call(x), x + 1)[1])
    with pytest.raises(torch._dynamo.exc.TorchDynamoException) as caught:
        run(torch.ones(2))
    assert words in str(caught.value)
