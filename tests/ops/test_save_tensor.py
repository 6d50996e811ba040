"""``save_npugraph_tensor``: files, counts, the order with writes, and what it refuses (specification, F-45)."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import npugraph_ex
import torchair
from torchair.errors import ArgumentError, ArgumentTypeError, OutputFileError

#: Tests pass what annotations forbid.
save: Any = torchair.ops.save_npugraph_tensor


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ge_backend(engine: str) -> Any:
    config = torchair.CompilerConfig()
    config.engine = engine
    return torchair.get_npu_backend(compiler_config=config)


BACKENDS = {
    "eager": lambda: "eager",
    "npugraph_ex": lambda: "npugraph_ex",
    "ge-reference": lambda: ge_backend("reference"),
    "ge-native": lambda: ge_backend("native"),
}


@pytest.mark.parametrize("kind", BACKENDS)
def test_in_order_with_writes(kind, tmp_path) -> None:
    def program(x: Tensor) -> Tensor:
        save(x, save_path="out/before.pt")
        x.add_(1)
        save(x, save_path="out/after.pt")
        y = x * 2
        save(y.sum(), save_path="./unused.bin")
        y.mul_(3)
        return y

    run = torch.compile(program, backend=BACKENDS[kind](), fullgraph=True)
    with torch.no_grad():
        for call in range(2):
            x = torch.arange(3.0) + 10 * call
            expected = x.clone()
            assert torch.equal(run(x), (expected + 1) * 6)
            assert torch.equal(torch.load(f"out/before_device_0_{call}.pt"), expected)
            assert torch.equal(torch.load(f"out/after_device_0_{call}.pt"), expected + 1)
            assert np.fromfile(f"unused_device_0_{call}.bin", np.float32).tolist() == [float((expected + 1).sum() * 2)]
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == [
        *(f"{name}_device_0_{call}.pt" for name in ("after", "before") for call in range(2)),
        *(f"unused_device_0_{call}.bin" for call in range(2)),
    ]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6).view(2, 3).T,
        torch.tensor(3, dtype=torch.bfloat16),
        torch.tensor([True, False]),
        torch.empty(0, 2),
        torch.tensor([1 + 2j]).conj(),
        torch.ones(2, requires_grad=True),
    ],
    ids=["strided", "scalar", "bool", "empty", "conjugate", "parameter"],
)
def test_values(tensor) -> None:
    save(tensor, save_path="x.pt")
    save(tensor, save_path="x.bin")
    found = torch.load("x_device_0_0.pt")
    assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(found, tensor)
    raw = Path("x_device_0_0.bin").read_bytes()
    expected = tensor.detach().resolve_conj().contiguous().reshape(-1)
    assert raw == expected.view(torch.uint8).numpy().tobytes()
    assert stat.S_IMODE(Path("x_device_0_0.bin").stat().st_mode) == 0o600


def test_only_the_view_is_written() -> None:
    save(torch.zeros(1_000_000)[:2], save_path="x.pt")
    assert Path("x_device_0_0.pt").stat().st_size < 10_000


def test_the_default_path() -> None:
    npugraph_ex.save_npugraph_tensor(torch.ones(2))
    assert torch.equal(torch.load("npugraph_tensor_device_0_0.pt"), torch.ones(2))


WRONG = [
    (lambda x: save([x], save_path="x.pt"), ArgumentTypeError, "takes a tensor"),
    (lambda x: save(x, save_path=3), ArgumentTypeError, "it was given 3, a int"),
    *(
        (lambda x, path=path: save(x, save_path=path), ArgumentError, f"it was given {path!r}")
        for path in ("", "x", "x.txt", ".pt", "a/.bin", "a\0.pt")
    ),
]


@pytest.mark.parametrize(("call", "kind", "words"), WRONG)
def test_wrong_arguments(call, kind, words, tmp_path) -> None:
    with pytest.raises(kind) as caught:
        call(torch.ones(2))
    assert words in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_wrong_arguments_in_a_compiled_function() -> None:
    run = torch.compile(lambda x: (WRONG[4][0](x), x + 1)[1], backend="npugraph_ex", fullgraph=True)
    with pytest.raises(torch._dynamo.exc.TorchDynamoException) as caught:
        run(torch.ones(2))
    assert "it was given 'x.txt'" in str(caught.value)


def test_a_link_is_refused_when_the_graph_runs() -> None:
    Path("x_device_0_0.pt").symlink_to("other")

    def program(x: Tensor) -> Tensor:
        save(x, save_path="x.pt")
        return x + 1

    run = torch.compile(program, backend="npugraph_ex", fullgraph=True)
    with pytest.raises(OutputFileError, match="is a symbolic link"):
        run(torch.ones(2))
    assert torch.equal(run(torch.ones(2)), torch.full((2,), 2.0))  # the next one has another number
    assert Path("x_device_0_1.pt").exists()
