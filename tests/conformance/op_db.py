"""Run one entry of PyTorch's operator database through a backend and compare with eager.

``op_db`` lists every public operator with sample inputs. An entry agrees when values, dtypes, strides and the
contents of the inputs afterwards are eager's. Random operators are seeded before each run.

Native programs keep 16-bit floats in float32 where eager mode rounds them between the steps of one operator. There a
value also agrees that is no farther from the float64 result than eager's.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

import torchair
from torchair.config import NpuGraphExConfig
from torchair.pipeline.backends import Backend

__all__ = [
    "CAPTURE",
    "ENTRIES",
    "STATIC",
    "Outcome",
    "backend",
    "dtypes_of",
    "entry_name",
    "no_farther",
    "other_values",
    "run_entry",
]

#: Entries by name (``"nn.functional.gelu"``, ``"std_mean.unbiased"``).
ENTRIES: dict[str, OpInfo] = {}


def entry_name(op: OpInfo) -> str:
    """Name and variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


for _op in op_db:
    ENTRIES[entry_name(_op)] = _op

#: What :func:`backend` calls capture mode.
CAPTURE = "npugraph_ex"
#: The same with native programs in captured graphs.
STATIC = "npugraph_ex-static"

_SHORT_FLOATS = (torch.bfloat16, torch.float16)

_SECOND_CHOICES = (torch.bfloat16, torch.int64, torch.complex64, torch.bool, torch.float64, torch.float16, torch.int32)


def dtypes_of(op: OpInfo) -> tuple[torch.dtype, ...]:
    """float32 where supported, else the first choice that is; then one more."""
    supported = op.supported_dtypes("cpu")
    choices = [d for d in (torch.float32, *_SECOND_CHOICES) if d in supported]
    return tuple(choices[:2]) or tuple(itertools.islice(supported, 1))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one entry.

    Attributes:
        status: ``"pass"``, ``"fail"``, ``"no samples"``, ``"eager fails"``, or ``"aot_eager fails"`` (PyTorch itself
        cannot).
        reason: First line of what went wrong.
        samples: How many samples were compared.
    """

    status: str
    reason: str = ""
    samples: int = 0


def backend(engine: str = "reference", **experimental: Any) -> Backend:
    """GE mode on one engine; ``"npugraph_ex"``, ``"npugraph_ex-static"``: capture mode."""
    if engine in (CAPTURE, STATIC):
        capture = NpuGraphExConfig()
        capture.static_kernel_compile = engine == STATIC
        return torchair.get_npu_backend(compiler_config=capture)
    config = torchair.CompilerConfig()
    config.engine = engine
    for name, value in experimental.items():
        setattr(config.experimental_config, name, value)
    return torchair.get_npu_backend(compiler_config=config)


def run_entry(
    op: OpInfo, dtype: torch.dtype, *, engine: str = "reference", max_samples: int = 1, seconds: float = 20.0
) -> Outcome:
    """Compare the first samples of an entry with eager.

    Capture mode runs each three times, with tensors at other addresses, the second time with other values. A sample
    that differs is also run with ``aot_eager``, to tell whose fault it is.
    """
    start, count = time.process_time(), 0  # not the wall clock: on a busy machine, that would leave samples out
    for sample in itertools.islice(_samples(op, dtype), max_samples):
        if time.process_time() - start > seconds:
            break
        try:
            calls = [(sample, _run(op, sample, op.op))]
        except Exception as e:  # noqa: BLE001 (any exception is an outcome)
            return Outcome("eager fails", _line(e), count)
        if engine in (CAPTURE, STATIC):
            calls = [calls[0], other_values(op, sample) or calls[0], calls[0]]
        problem = _compare(op, calls, backend(engine), measured=engine in ("native", STATIC))
        if problem is not None:
            theirs = _compare(op, calls, "aot_eager")
            return Outcome("fail" if theirs is None else "aot_eager fails", problem, count)
        count += 1
    return Outcome("pass" if count else "no samples", "", count)


def _samples(op: OpInfo, dtype: torch.dtype) -> Iterator[SampleInput]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        yield from op.sample_inputs("cpu", dtype, requires_grad=False)


def _run(op: OpInfo, sample: SampleInput, function: Callable[..., Any]) -> tuple[Any, Any]:
    """Result and inputs afterwards, on copies of the sample's inputs."""
    args, kwargs = pytree.tree_map_only(torch.Tensor, _copy, ((sample.input, *sample.args), sample.kwargs))
    torch.manual_seed(7)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs), (args, kwargs)


def other_values(op: OpInfo, sample: SampleInput) -> tuple[SampleInput, tuple[Any, Any]] | None:
    """The sample with floating numbers scaled, and what eager makes of it; None where eager does not take it."""

    def scaled(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout is not torch.strided or not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor
        if tensor.dtype.itemsize == 1:  # nothing multiplies 8-bit floats
            return tensor
        return _copy(tensor).mul_(0.75)

    with torch.no_grad():
        other = _mapped(sample, lambda value: scaled(value) if isinstance(value, torch.Tensor) else value)
    try:
        return other, _run(op, other, op.op)
    except Exception:  # noqa: BLE001 (whatever the operator says about these values)
        return None


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        return tensor.clone()
    base = tensor.detach()
    copy = torch.empty_strided(base.shape, base.stride(), dtype=base.dtype) if _dense(base) else None
    copy = base.clone() if copy is None else copy.copy_(base)
    return copy.conj() if base.is_conj() and not copy.is_conj() else copy


def _dense(tensor: torch.Tensor) -> bool:
    return all(stride != 0 or size <= 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) and not (
        tensor.is_conj() or tensor.is_neg()
    )


def _compare(
    op: OpInfo, calls: Sequence[tuple[SampleInput, tuple[Any, Any]]], compiler: Any, *, measured: bool = False
) -> str | None:
    """What differs from eager in one of several calls, or None.

    Args:
        measured: 16-bit floats that differ are measured against float64.
    """
    torch.compiler.reset()
    kept = []
    try:
        compiled = torch.compile(lambda *a, **k: op.op(*a, **k), backend=compiler)
        for number, (sample, expected) in enumerate(calls, 1):
            kept.append(actual := _run(op, sample, compiled))  # alive: the next call finds other addresses
            call = f" of call {number}" if len(calls) > 1 else ""
            for part, title in enumerate(("result", "inputs afterwards")):
                got, want = actual[part], expected[part]
                _assert_same(f"{title}{call}", got, want)
                if _is_empty_like(op):
                    continue
                for place, (g, w) in enumerate(zip(_tensors(got), _tensors(want), strict=True)):
                    exact = _in_float64(op, sample) if measured and not _close(g, w) else None
                    if exact is None or not no_farther(g, w, _tensors(exact[part])[place]):
                        torch.testing.assert_close(g, w, equal_nan=True, check_stride=False)
    except Exception as e:  # noqa: BLE001 (any exception is an outcome)
        return _line(e)
    return None


def _is_empty_like(op: OpInfo) -> bool:
    """Operators whose result is uninitialized memory by definition: only dtype, shape and strides are compared."""
    return "empty" in str(op.name)


def _assert_same(title: str, got: Any, want: Any) -> None:
    """Everything but the values of tensors."""
    got_leaves, got_spec = pytree.tree_flatten(got)
    want_leaves, want_spec = pytree.tree_flatten(want)
    assert len(got_leaves) == len(want_leaves), f"{title}: {got_spec} instead of {want_spec}"
    for g, w in zip(got_leaves, want_leaves, strict=True):
        if not isinstance(w, torch.Tensor):
            assert type(g) is type(w), f"{title}: {type(g)} instead of {type(w)}"
            assert g == w or g != g, f"{title}: {g} instead of {w}"
            continue
        got_kind, want_kind = ((t.dtype, tuple(t.shape), t.layout) for t in (g, w))
        assert got_kind == want_kind, f"{title}: {got_kind} instead of {want_kind}"
        if w.layout is torch.strided and w.numel() > 1:
            pairs = zip(w.shape, g.stride(), w.stride(), strict=True)
            assert all(size == 1 or a == b for size, a, b in pairs), (
                f"{title}: strides {g.stride()} instead of {w.stride()} for shape {tuple(w.shape)}"
            )


def no_farther(got: torch.Tensor, want: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether a result is as good as eager's.

    It is what float64 gives, by the tolerances of its dtype; or its errors (root mean square, and largest) are at most
    eager's, and eager's are roundings: 2 percent of the values. So numbers that have nothing to do with ``exact``, as
    those of a random operator, are not.
    """
    if exact.shape != got.shape or exact.dtype != torch.float64 or got.dtype not in _SHORT_FLOATS:
        return False
    if _close(got, exact.to(got.dtype)):
        return True
    ours, theirs = ((t.double() - exact).abs() for t in (got, want))
    as_near = _rms(ours) <= _rms(theirs) and bool(ours.max() <= theirs.max())
    return as_near and _rms(theirs) <= 0.02 * _rms(exact)


def _close(got: torch.Tensor, want: torch.Tensor) -> bool:
    try:
        torch.testing.assert_close(got, want, equal_nan=True, check_stride=False)
    except AssertionError:
        return False
    return True


def _rms(values: torch.Tensor) -> float:
    return float(values.double().square().mean().sqrt())


def _in_float64(op: OpInfo, sample: SampleInput) -> tuple[Any, Any] | None:
    """What eager makes of the sample in float64; None where it does not take it."""

    def widened(value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return torch.float64 if value in _SHORT_FLOATS else value
        return value.double() if isinstance(value, torch.Tensor) and value.dtype in _SHORT_FLOATS else value

    try:
        return _run(op, _mapped(sample, widened), op.op)
    except Exception:  # noqa: BLE001 (whatever the operator says about float64)
        return None


def _mapped(sample: SampleInput, change: Callable[[Any], Any]) -> SampleInput:
    given, args, kwargs = pytree.tree_map(change, (sample.input, sample.args, sample.kwargs))
    return SampleInput(given, args=args, kwargs=kwargs)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _line(e: Exception) -> str:
    text = [line for line in str(e).splitlines() if line.strip()]
    return f"{type(e).__name__}: {' | '.join(text[:12])}"[:1500]
