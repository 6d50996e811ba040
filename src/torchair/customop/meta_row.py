"""The row about the meta function (fake kernel)."""

from __future__ import annotations

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.convert.pasting import fake_kernel_code
from torchair.convert.schemas import OperatorSchema
from torchair.customop.guess_meta import guessed_meta
from torchair.customop.observe import Observations
from torchair.customop.report import Row
from torchair.customop.symbolic import symbolic_problems

__all__ = ["meta_row"]

_TITLE = "meta function"


def meta_row(overload: OpOverload, seen: Observations) -> Row:
    """Whether it exists, and promises what the kernel does, for real and for symbolic sizes."""
    if not _torch_compat.has_fake_kernel(overload):
        return Row(
            _TITLE,
            "missing",
            "nothing tells the shapes and dtypes of its results",
            guessed_meta(overload, seen) or fake_kernel_code(OperatorSchema.of(overload)),
        )
    symbolic, sizes = symbolic_problems(overload, seen.taken)
    real = seen.problems("fake", "result", "memory")
    if seen.problems("alias"):  # told in the row of the schema
        real = [p for p in real if "lies in the memory of" not in p]
    fix = "Correct the kernel, or its fake kernel."
    if any("has strides" in p for p in real):
        fix += (
            "\nx.new_empty(sizes) promises a contiguous result, torch.empty_like(x) one that lies as x does; "
            ".contiguous() in the kernel makes a result contiguous."
        )
    if real:
        # What it gets wrong at real sizes it gets wrong at symbolic ones, too; a cause says more than its effects.
        causes = [p for p in symbolic if not p.startswith(("with symbolic sizes", "the fake kernel raised"))]
        return Row(_TITLE, "wrong", "\n".join([*causes, *real]), fix)
    if symbolic:
        return Row(_TITLE, "wrong", "\n".join(symbolic), fix)
    if not seen.taken:
        return Row(_TITLE, "pass", "not compared with the kernel, which did not run")
    calls = "the sample arguments" if not seen.generated and len(seen.usual) == 1 else f"{len(seen.usual)} calls"
    also = f", with symbolic sizes at {sizes} sizes" if sizes else ""
    remarks = []
    if unusual := seen.problems("fake", "result", "memory", unusual=True):
        dtypes = ", ".join(dict.fromkeys(o.call.note for o in seen.taken if o.call.unusual and o.problems))
        remarks = [f"for {dtypes} it does not, which the kernel might refuse: {unusual[0].splitlines()[0]}"]
    return Row(_TITLE, "pass", "\n".join([f"agrees with the kernel on {calls}{also}", *remarks]))
