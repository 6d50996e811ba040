"""The entry points of ``torch.compile``: backends by name and by ``get_npu_backend``."""

from __future__ import annotations

import functools
import operator
import warnings
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from torch import fx
from typing_extensions import Self

from torchair import _torch_compat
from torchair.config import (
    PROCESS_OPTIONS,
    CompilerConfig,
    NpuGraphExConfig,
    Options,
    warn_inapplicable,
    with_foreign_options,
)
from torchair.convert.registry import converters
from torchair.errors import ArgumentError, ConfigTypeError
from torchair.frontend import converted_kept_whole, decomposition_table
from torchair.frontend.functional import functional_graph
from torchair.frontend.internal_format import internal_format
from torchair.frontend.mutation_rules import name_expanded_inputs, refuse_unsupported_mutations
from torchair.frontend.native_streams import rewrite_native_streams
from torchair.ir.types import Format
from torchair.logs import logger
from torchair.pipeline.backend_options import refuse_inductor_mode, refuse_inductor_options
from torchair.pipeline.builtin import load_converters
from torchair.pipeline.capture_mode import CapturedGraph, capture_graph
from torchair.pipeline.explain import AnyGraph, note
from torchair.pipeline.ge_mode import CompiledGraph, compile_graph
from torchair.pipeline.origin import Origin
from torchair.pipeline.pass_names import check_disabled_passes, known_pass_names
from torchair.pipeline.rng_state import expand_rng_wrappers
from torchair.pipeline.shortcut import Shortcut
from torchair.pipeline.static_kernels import static_kernel_decompositions, wants_static_kernels
from torchair.pipeline.verify import VerifiedGraph, captured_steps, compiled_steps, has_random

__all__ = [
    "Backend",
    "compile_fx",
    "get_capture_backend",
    "get_capture_compiler",
    "get_compiler",
    "get_npu_backend",
    "npu",
    "npugraph_ex",
    "torchair",
]

Config = CompilerConfig | NpuGraphExConfig


class Backend(functools.partial[Callable[..., Any]]):
    """A backend for ``torch.compile``: a ``functools.partial`` that remembers what it compiled.

    Example:
        >>> backend = torchair.get_npu_backend()
        >>> y = torch.compile(model, backend=backend)(x)
        >>> print(backend.graphs[-1].text)
    """

    _compiled: weakref.WeakSet[AnyGraph]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make the partial."""
        self = super().__new__(cls, *args, **kwargs)
        self._compiled = weakref.WeakSet()
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """What it compiled stays behind."""
        return _remake, (self.keywords["compiler_config"], self.keywords["custom_decompositions"])

    def __repr__(self) -> str:
        return f"<torchair backend: {self.keywords['compiler_config']}>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Compile one graph of Dynamo's."""
        return super().__call__(*args, **kwargs, compiled=self._compiled)

    @property
    def graphs(self) -> list[Any]:
        """The compiled graphs that are still alive, in order of compilation.

        Each is a ``CompiledGraph`` in GE mode, a ``CapturedGraph`` in capture mode.
        """
        return sorted(self._compiled, key=lambda g: g.number)


def _remake(config: Config, custom_decompositions: Mapping[Any, Callable[..., Any]]) -> Backend:
    return Backend(_backend, compiler_config=config, custom_decompositions=custom_decompositions)


def _checked(config: Any, kind: type[Config] = CompilerConfig) -> Config:
    """The configuration, a fresh one for None.

    Raises:
        ConfigTypeError: It is something else.
        ConfigValueError: It disables a pass that does not exist.
    """
    if config is None:
        return kind()
    package = "torchair" if kind is CompilerConfig else "npugraph_ex"
    if kind is NpuGraphExConfig and isinstance(config, CompilerConfig) and not config.captures:
        raise ConfigTypeError(
            "A configuration is of the wrong type",
            why="compiler_config takes an npugraph_ex.CompilerConfig, and this torchair.CompilerConfig is for GE mode",
            fix=f"{_FIRST_LINES[package]}\nor: torchair.get_npu_backend(compiler_config=config)",
        )
    if not isinstance(config, CompilerConfig | NpuGraphExConfig):
        given = f"the class {config.__name__}" if isinstance(config, type) else f"a {type(config).__name__}"
        raise ConfigTypeError(
            "A configuration is of the wrong type",
            why=f"compiler_config takes a {package}.CompilerConfig, not {given}",
            fix=_FIRST_LINES[package],
        )
    check_disabled_passes(config)
    return config


_FIRST_LINES = {
    "torchair": 'config = torchair.CompilerConfig()\nconfig.engine = "reference"  # and so on',
    "npugraph_ex": "config = npugraph_ex.CompilerConfig()\nconfig.force_eager = True  # and so on",
}


def get_npu_backend(
    *,
    compiler_config: Config | None = None,
    custom_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> Backend:
    """A backend for ``torch.compile`` that runs graphs in the mode of the configuration: GE mode when it says nothing.

    Args:
        compiler_config: Held by reference: changes before the first compile take effect. None means a fresh one.
        custom_decompositions: Operator overloads to decomposition functions; they win over the default table.

    Returns:
        A ``functools.partial`` whose keyword ``compiler_config`` is the config; its ``graphs`` are what it compiled.
    """
    return _new_backend(_checked(compiler_config), custom_decompositions)


def get_capture_backend(
    *,
    compiler_config: Config | None = None,
    custom_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> Backend:
    """A backend for ``torch.compile`` that captures and replays; public as ``npugraph_ex.get_npu_backend``.

    Args:
        compiler_config: Held by reference: changes before the first compile take effect. None means a fresh one.
        custom_decompositions: Operator overloads to decomposition functions; there are no others.

    Returns:
        A ``functools.partial`` whose keyword ``compiler_config`` is the config; its ``graphs`` are what it compiled.
    """
    return _new_backend(_checked(compiler_config, NpuGraphExConfig), custom_decompositions)


#: What becomes of parameters that change although they are frozen, in each mode.
_PROMISE_IN_GE = (
    "What depends on them alone is computed once, and again after one was replaced or updated in place; writes "
    "through parameter.data and NumPy are not noticed."
)
_PROMISE_IN_CAPTURES = (
    "A device graph, or device_semantics, reads the old memory of one that was moved or replaced; other captures on a "
    "CPU read parameters where they are."
)


def _new_backend(config: Config, custom_decompositions: Mapping[Any, Callable[..., Any]] | None) -> Backend:
    if isinstance(config, CompilerConfig):
        warn_inapplicable(config, stacklevel=3)
        frozen, name = config.experimental_config.frozen_parameter, "config.experimental_config.frozen_parameter"
        captures = config.captures
    else:
        frozen, name, captures = config.frozen_parameter, "frozen_parameter", True
    if frozen:
        broken = _PROMISE_IN_CAPTURES if captures else _PROMISE_IN_GE
        warnings.warn(f"{name} = True promises that parameters keep their addresses. {broken}", stacklevel=3)
    return Backend(_backend, compiler_config=config, custom_decompositions=dict(custom_decompositions or {}))


def get_compiler(
    compiler_config: Config | None = None,
) -> Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
    """A compiler of AOT graphs, usable as ``fw_compiler`` of ``aot_module_simplified`` in a backend of one's own.

    Returns:
        ``(gm, example_inputs) -> callable`` that takes the flat inputs and returns a sequence of outputs.
    """
    config = _checked(compiler_config)

    return functools.partial(compile_aot_graph, config=config)


def get_capture_compiler(
    compiler_config: Config | None = None,
) -> Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
    """A compiler of AOT graphs that captures and replays; public as ``npugraph_ex.get_compiler``.

    Returns:
        ``(gm, example_inputs) -> callable`` that takes the flat inputs and returns a sequence of outputs.
    """
    return functools.partial(compile_aot_graph, config=_checked(compiler_config, NpuGraphExConfig))


def compile_fx(
    gm: fx.GraphModule, example_inputs: Sequence[Any] | None = None, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile an AOT graph for capture and replay; public as ``npugraph_ex.compile_fx``.

    For a backend of one's own::

        def backend(gm, example_inputs):
            return aot_module_simplified(
                gm, example_inputs, fw_compiler=npugraph_ex.compile_fx, keep_inference_input_mutations=True
            )

    Args:
        gm: A graph as ``aot_module_simplified`` gives it to a compiler.
        example_inputs: Its inputs, real or fake; taken from the graph when omitted.
        options: The options of capture mode, by name.

    Returns:
        A callable that takes the flat inputs and returns a sequence of outputs. It captures when it is called.

    Raises:
        UnknownOptionError: An option is unknown; a ``ValueError``, like the next.
        ConfigValueError, ConfigTypeError, ConfigFileNotFoundError: A value is not accepted.
        ArgumentError: The inputs are omitted, and the graph does not know them.
    """
    refuse_inductor_options(options)
    config = NpuGraphExConfig.from_options(options)
    if example_inputs is None:
        example_inputs = _inputs_of(gm)
    return compile_aot_graph(gm, example_inputs, config=config)


def _inputs_of(gm: fx.GraphModule) -> list[Any]:
    inputs = gm.graph.find_nodes(op="placeholder")
    unknown = [node.name for node in inputs if "val" not in node.meta]
    if unknown:
        raise ArgumentError(
            "The inputs of a graph are not known",
            why=f'example_inputs is omitted, and no meta["val"] says what {", ".join(unknown)} are',
            fix="npugraph_ex.compile_fx(gm, example_inputs)",
        )
    return [node.meta["val"] for node in inputs]


def compile_aot_graph(gm: fx.GraphModule, example_inputs: Sequence[Any], *, config: Config) -> Callable[..., Any]:
    """Compile a graph that comes from ``aot_module_simplified``, ``make_fx`` or ``symbolic_trace``.

    Returns:
        A callable that takes the flat inputs and returns a sequence of outputs.
    """
    options = _options(config)
    if not options.captures:
        load_converters()
    functional, names = functional_graph(expand_rng_wrappers(gm), example_inputs)
    held = [operator.attrgetter(name) for name in names]
    inputs = [*example_inputs, *(get(gm) for get in held)]
    compiled = _compile(functional, inputs, options, config, Origin.now())
    made = _graph_of(compiled)

    def run(*args: Any) -> Sequence[Any]:
        flat = [*args, *(get(gm) for get in held)]
        if made is not None:
            made.check(flat)
        return compiled(flat)

    run.graph = made  # type: ignore[attr-defined]
    return run


def _compile(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    options: Options,
    config: Config,
    origin: Origin,
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    marked: Collection[int] = (),
) -> Callable[[list[Any]], Sequence[Any]]:
    gm = expand_rng_wrappers(gm)
    result: Callable[[list[Any]], Sequence[Any]]
    if options.captures:
        result = capture_graph(gm, inputs, options, config, decompositions)
    else:
        result = compile_graph(gm, inputs, options, config, decompositions, marked)
    made = _graph_of(result)
    if made is None:
        return result
    note(made, origin)
    return result if not options.verify_every else _verified(made, gm, options, config, decompositions)


def _graph_of(result: Callable[..., Any]) -> AnyGraph | None:
    """The compiled graph; None for one of GE mode that runs eagerly."""
    made = result.inner if isinstance(result, VerifiedGraph) else result
    return made if isinstance(made, CompiledGraph | CapturedGraph) else None


def _verified(
    made: AnyGraph,
    gm: fx.GraphModule,
    options: Options,
    config: Config,
    decompositions: Mapping[Any, Callable[..., Any]] | None,
) -> AnyGraph | VerifiedGraph:
    every = options.verify_every
    if isinstance(made, CapturedGraph):
        return VerifiedGraph(made, gm, every, captured_steps(made))
    if made.engine != "reference" and has_random(gm.graph):
        logger.warning_once(
            "verify_every leaves out graphs that draw random numbers: the %s engine draws others than eager mode",
            made.engine,
        )
        return made
    again = functools.partial(compile_graph, options=options, config=config, decompositions=decompositions)
    return VerifiedGraph(made, gm, every, compiled_steps(gm, again))


def torchair(gm: fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """Backend ``"torchair"``: GE mode with the default configuration."""
    return _backend(gm, example_inputs, compiler_config=CompilerConfig(), **kwargs)


def npu(gm: fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """Backend ``"npu"``: the name that upstream uses for the same."""
    return _backend(gm, example_inputs, compiler_config=CompilerConfig(), **kwargs)


def npugraph_ex(gm: fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """Backend ``"npugraph_ex"``: capture and replay."""
    return _backend(gm, example_inputs, compiler_config=NpuGraphExConfig(), **kwargs)


def _backend(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    compiler_config: Config,
    custom_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    compiled: weakref.WeakSet[AnyGraph] | None = None,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    refuse_inductor_mode(mode)
    refuse_inductor_options(options)
    config = _with_options(compiler_config, options)
    frozen = _options(config)

    custom = dict(custom_decompositions or {})
    if frozen.captures:
        rewrite_native_streams(gm)
        known, decompositions = frozenset[Any](), custom
        if wants_static_kernels(gm, frozen):
            decompositions = static_kernel_decompositions(custom)
    else:
        load_converters()
        known, decompositions = frozenset(converters.snapshot()), decomposition_table(converters.snapshot(), custom)

    origin = Origin.now()
    shortcut = Shortcut(gm)

    def compiler(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[[list[Any]], Sequence[Any]]:
        result = _compile(graph, inputs, frozen, config, origin, decompositions, _marked_inputs(graph, given))
        if compiled is not None and (made := _graph_of(result)) is not None:
            compiled.add(made)
        shortcut.see(graph, result)
        return result

    # Numbers, since the compiler outlives the call and must not keep the user's tensors.
    given = [internal_format(tensor) is Format.FORMAT_FRACTAL_NZ for tensor in _torch_compat.tensors_given(gm)]
    refuse_unsupported_mutations(gm)
    with converted_kept_whole(known, custom), name_expanded_inputs(gm):
        wrapped = _torch_compat.aot_module_simplified(
            gm,
            example_inputs,
            fw_compiler=compiler,
            bw_compiler=compiler,
            inference_compiler=compiler,
            decompositions=decompositions,
            keep_inference_input_mutations=frozen.captures or frozen.keep_inference_input_mutations,
        )
    return shortcut.beside(wrapped)


def _marked_inputs(graph: fx.GraphModule, given: Sequence[bool]) -> list[int]:
    """Numbers of the inputs of AOTAutograd's graph that are weights to be packed.

    Args:
        given: For each input of Dynamo's graph, whether it is one.
    """
    marked = [i for i, is_marked in enumerate(given) if is_marked]
    if not marked or _torch_compat.aot_phase() != "inference":
        return []
    same = len(graph.graph.find_nodes(op="placeholder")) == len(given)
    if not same:
        logger.info_once("use_internal_format_weight has no effect on a graph whose inputs AOTAutograd rearranges")
    return marked if same else []


def _with_options(config: Config, options: Mapping[str, Any] | None) -> Config:
    """The configuration with the ``options=`` of ``torch.compile``, on a copy."""
    if isinstance(config, CompilerConfig):
        return with_foreign_options(config, options)
    return config.with_options(options)


def _options(config: Config) -> Options:
    """Freeze the configuration for one compile.

    Raises:
        ConfigValueError: It disables a pass that does not exist, or has a text that cannot be read.
        ProcessOptionsError: It differs from an earlier compile in an option of the process.
    """
    check_disabled_passes(config)
    if isinstance(config, NpuGraphExConfig):
        return Options.from_npugraph_ex(config)
    options = Options.from_config(config)
    options.warn_unknown_switches(known_pass_names())
    if not options.captures:  # the options of the process are those of GE mode
        PROCESS_OPTIONS.fix(options.process_strings)
    return options
