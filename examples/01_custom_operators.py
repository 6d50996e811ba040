"""Bring custom operators into the graph: automatically, with a converter, and refused with a message that helps.

Run: ``python examples/01_custom_operators.py``
"""

from __future__ import annotations

import torch
from torch import Tensor

import torchair

# --- what an operator author already has: a schema, an eager kernel, a meta function ---------------------------------

torch.library.define("demo::my_op", "(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor")
torch.library.define("demo::my_inplace", "(Tensor(a!) x, Tensor y) -> Tensor")
torch.library.define("demo::scaled", "(Tensor x, Scalar factor) -> Tensor")


@torch.library.impl("demo::my_op", "CPU")
def my_op(x: Tensor, y: Tensor | None, z: list[Tensor], attr1: float, attr2: int) -> Tensor:
    total = x * attr1 + attr2
    for extra in z if y is None else [y, *z]:
        total = total + extra
    return total


@torch.library.register_fake("demo::my_op")
def my_op_meta(x: Tensor, y: Tensor | None, z: list[Tensor], attr1: float, attr2: int) -> Tensor:
    return torch.empty_like(x)


@torch.library.impl("demo::my_inplace", "CPU")
def my_inplace(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y)
    return x.sum(-1)


@torch.library.register_fake("demo::my_inplace")
def my_inplace_meta(x: Tensor, y: Tensor) -> Tensor:
    return x.new_empty(x.shape[:-1])


@torch.library.impl("demo::scaled", "CPU")
def scaled(x: Tensor, factor: float) -> Tensor:
    return x * factor


@torch.library.register_fake("demo::scaled")
def scaled_meta(x: Tensor, factor: float) -> Tensor:
    return torch.empty_like(x)


# --- a model that uses them ------------------------------------------------------------------------------------------


def model(x: Tensor, y: Tensor, cache: Tensor) -> tuple[Tensor, Tensor]:
    h = torch.ops.demo.my_op(x, None, [y, y * 2], 0.5, 3)
    sums = torch.ops.demo.my_inplace(cache, h)
    return torch.relu(h), sums


def run(title: str) -> None:
    """Compile the model in GE mode, compare with eager, and show the graph."""
    print(f"\n--- {title}")
    torch.compiler.reset()
    backend = torchair.get_npu_backend()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    x, y, cache = torch.randn(2, 4), torch.randn(2, 4), torch.zeros(2, 4)
    eager_cache, address = cache.clone(), cache.data_ptr()
    eager, got = model(x, y, eager_cache), compiled(x, y, cache)
    agree = all(map(torch.allclose, got, eager)) and torch.allclose(cache, eager_cache)
    (graph,) = backend.graphs
    print(graph.text)
    print(f"agrees with eager: {agree}; the cache was written in place: {cache.data_ptr() == address}")
    print(f"copies in the graph: {graph.graph.count('TensorMove')}")


def main() -> None:
    """Show the three ways."""
    run("1. automatic: my_op becomes MyOp, my_inplace becomes MyInplace; nothing to write")

    @torchair.register_fx_node_ge_converter(torch.ops.demo.my_op.default)
    def convert_my_op(x, y, z, attr1, attr2, meta_outputs=None):
        """demo::my_op(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor"""
        scaled_x = torchair.ge.Add(torchair.ge.Mul(x, attr1), float(attr2))
        for extra in z if y is None else [y, *z]:
            scaled_x = torchair.ge.Add(scaled_x, extra)
        return scaled_x

    run("2. with a converter: my_op becomes Ascend operators that exist already")

    print("\n--- 3. refused: a Scalar argument has no Ascend attribute type; the error shows the converter to write")
    try:
        torch.compile(lambda x: torch.ops.demo.scaled(x, 2), backend="torchair", fullgraph=True)(torch.ones(3))
    except Exception as error:  # noqa: BLE001 (Dynamo wraps the error)
        print(error.__cause__ or error)

    print("\n--- what is there, what is missing: torchair.check_operator")
    print(torchair.check_operator(torch.ops.demo.my_op.default, torch.ones(2), None, [torch.ones(2)], 0.5, 1))


if __name__ == "__main__":
    main()
