"""Why core ATen overloads stay torch calls: what the support table says about those that have no Ascend IR form."""

from __future__ import annotations

__all__ = ["UNSUPPORTED"]

#: Overload -> reason, one sentence each. An overload with a converter is not listed.
UNSUPPORTED: dict[str, str] = {
    "aten._cdist_forward.default": "The Ascend operator cannot be told how to compute (compute_mode), which eager can.",
    "aten._local_scalar_dense.default": "A number that is read from a tensor has no place in a graph of tensors.",
    "aten._native_batch_norm_legit.default": "It becomes _native_batch_norm_legit_functional, which has a converter.",
    "aten._pdist_forward.default": "No Ascend operator is known for the distances within one set of points.",
    "aten.nonzero.default": "The size of its result is known only after it ran.",
    "aten.resize_.default": "It changes the memory of its argument, and what new memory holds is not defined.",
}
