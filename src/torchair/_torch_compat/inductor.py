"""Inductor below AOTAutograd."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import fx

from torchair._torch_compat.aot import own_python_kernels
from torchair._torch_compat.calls import no_dispatch_modes

__all__ = [
    "compile_lock",
    "inductor_compile",
    "inductor_decompositions",
    "inductor_keeps_strides",
    "inductor_option_names",
    "inductor_settings",
    "load_inductor_lowerings",
]


def inductor_keeps_strides() -> bool:
    """Whether Inductor can give operators exactly eager's strides.

    Before 2.7 it makes operands contiguous, or keeps no more than the order of their strides.
    """
    return hasattr(torch.Tag, "needs_exact_strides")


def inductor_option_names() -> frozenset[str]:
    """The names that ``options=`` of ``torch.compile`` may have with PyTorch's own compiler."""
    from torch._inductor import list_options

    return frozenset(list_options())


@contextlib.contextmanager
def inductor_settings(**settings: Any) -> Iterator[None]:
    """Change Inductor's configuration for a while; settings that this version does not have are left out."""
    from torch._functorch import config as functorch_config
    from torch._inductor import config

    # 2.7 moved this one, which says how the operands of custom operators are laid out.
    layout = (
        {"custom_op_default_layout_constraint": settings.pop("custom_op_layout")}
        if "custom_op_layout" in settings
        else {}
    )
    with (
        config.patch({name: value for name, value in {**settings, **layout}.items() if hasattr(config, name)}),
        functorch_config.patch({name: value for name, value in layout.items() if hasattr(functorch_config, name)}),
    ):
        yield


def inductor_decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Inductor's table of decompositions; depends on its configuration."""
    with own_python_kernels():
        from torch._inductor.decomposition import select_decomp_table

    return select_decomp_table()


def load_inductor_lowerings() -> None:
    """Import what some of Inductor's decompositions (of pooling, for one) take for granted."""
    with own_python_kernels():
        import torch._inductor.lowering  # noqa: F401


def compile_lock() -> Any:
    """The lock that Dynamo holds while it compiles; backward graphs may be compiled outside Dynamo."""
    from torch._dynamo.convert_frame import compile_lock as lock

    return lock


def _compile_metrics() -> Any:
    """The context in which Inductor may count; Dynamo opens it, and outside Dynamo 2.6 needs one too."""
    from torch._dynamo.utils import get_metrics_context

    context: Any = get_metrics_context()
    return contextlib.nullcontext() if context.in_progress() else context


def inductor_compile(gm: fx.GraphModule, fake_mode: Any) -> tuple[Callable[[list[Any]], Any], Any]:
    """Compile a functional FX graph of ATen operators.

    Args:
        gm: Traced by :func:`trace_functional`; the results that it returns come in the strides of their fake tensors.

    Returns:
        A function that takes the list of arguments and empties it, and the object that owns it.
    """
    from torch._guards import TracingContext, tracing
    from torch._inductor import compile_fx
    from torch._inductor.virtualized import V

    inputs = [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]
    device = next(
        (i.device for i in inputs if isinstance(i, torch.Tensor) and i.device.type != "cpu"), torch.device("cpu")
    )
    passes: Any = compile_fx._recursive_joint_graph_passes
    options = {"input_device": device} if "input_device" in inspect.signature(passes).parameters else {}
    # A tracing context of its own: Inductor reports strides to the one of the compile in progress, which counts other
    # outputs.
    with (
        no_dispatch_modes(),
        V.set_fake_mode(fake_mode),
        tracing(TracingContext(fake_mode)),
        torch.no_grad(),
        _compile_metrics(),
    ):
        gm = passes(gm, **options) or gm
        output = next(iter(reversed(gm.graph.nodes)))
        output.meta["user_visible_output_idxs"] = [i for i, a in enumerate(output.args[0]) if isinstance(a, fx.Node)]
        compiled: Any = compile_fx.compile_fx_inner(gm, inputs, is_inference=True)
    # What stands around this callable in the object records timings; it costs more than a small graph.
    return getattr(compiled, "current_callable", None) or compiled, compiled
