"""Why core ATen overloads (and two of ours) stay torch calls: what errors and the support table say of them."""

from __future__ import annotations

__all__ = ["UNSUPPORTED"]

_DRAWS = "it draws from torch's random generator, and no Ascend operator draws the same numbers from a seed"
_GENERATOR = "it is about the state of torch's random generator, which no Ascend operator uses"
_TRANSFORMS = "Ascend IR has the forward transform of complex numbers only, without a factor"

#: Overload -> reason. An overload with a converter is not listed, unless AOTAutograd replaces it by another one.
UNSUPPORTED: dict[str, str] = {
    "air.get_rng_state.default": _GENERATOR,
    "air.set_rng_state.default": _GENERATOR,
    "aten._cdist_forward.default": "the Ascend operator cannot be told how to compute (compute_mode), which eager can",
    "aten._fft_c2r.default": _TRANSFORMS,
    "aten._fft_r2c.default": _TRANSFORMS,
    "aten._local_scalar_dense.default": "a number that is read from a tensor has no place in a graph of tensors",
    "aten._native_batch_norm_legit.default": "it becomes _native_batch_norm_legit_functional, which has a converter",
    "aten._pdist_forward.default": "no Ascend operator is known for the distances within one set of points",
    "aten.bernoulli.default": _DRAWS,
    "aten.nonzero.default": "the size of its result is known only after it ran",
    "aten.rand.default": _DRAWS,
    "aten.randn.default": _DRAWS,
    "aten.randperm.default": _DRAWS,
    "aten.resize_.default": "it changes the memory of its argument, and what new memory holds is not defined",
    "aten.sym_storage_offset.default": "Dynamo ends the graph where the storage offset of a tensor is read",
}
