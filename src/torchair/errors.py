"""Every exception that TorchAir raises on purpose, and :class:`Rejection`, a "no" with its reason.

An error has separate facts: ``what`` happened (no run-time values, so that it can be searched for), ``why``
(the values, one line each), ``fix`` (what to type), ``where`` (the user's source). Classes also derive from the
built-in class that upstream raises in the same place, so existing ``except`` clauses keep working.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

__all__ = [
    "ArgumentError",
    "BuildError",
    "CaptureError",
    "ArgumentTypeError",
    "AutoConversionError",
    "ConfigFileNotFoundError",
    "ConfigTypeError",
    "ConfigValueError",
    "ConversionError",
    "ConverterRegistrationError",
    "ConverterResultError",
    "EngineCompileError",
    "EagerCallError",
    "EngineError",
    "ExecutionError",
    "ForeignMemoryError",
    "GraphInputError",
    "IRError",
    "IRTextError",
    "MissingFakeKernelError",
    "MissingKernelError",
    "MutationError",
    "NoGraphError",
    "OperatorContractError",
    "OperatorClashError",
    "OperatorFileError",
    "OperatorFileNotFoundError",
    "OutputCheckError",
    "OutputFileError",
    "OutputRuleError",
    "PassError",
    "PrototypeArgumentCountError",
    "PrototypeArgumentTypeError",
    "PrototypeError",
    "PrototypeNotFoundError",
    "ProcessOptionsError",
    "ProjectError",
    "Rejection",
    "ReplacementError",
    "SchemaError",
    "SampleFileError",
    "ScopeError",
    "ShapeError",
    "TorchAirError",
    "TraceFileError",
    "TraceFileNotFoundError",
    "TypeRuleError",
    "UnavailableFeatureError",
    "UnconvertedOperatorsError",
    "UnknownOptionError",
    "UnsupportedGraphError",
    "VerificationError",
    "shortened",
    "unavailable",
]


@dataclass(frozen=True, slots=True)
class Rejection:
    """A reason why something cannot be done, as data: reports and errors collect them.

    Attributes:
        reason: What stands in the way, a sentence without a full stop.
        fix: What the user can do about it; may be empty.
    """

    reason: str
    fix: str = ""


class TorchAirError(Exception):
    """Base of all errors that TorchAir raises on purpose.

    Args:
        what: What happened, in one line without run-time values.
        why: The facts behind it, one string a line.
        fix: How to mend it; may have several lines and code to paste.
        where: The user's source that led here, ``file:line, in function: code``.
    """

    code: ClassVar[str] = "TA000"
    upstream_code: ClassVar[str] = ""
    """Upstream's code for the same situation, at the end of the first line; empty where it has none."""

    def __init__(
        self, what: str, *, why: str | Sequence[str] = (), fix: str = "", where: str | Sequence[str] = ()
    ) -> None:
        self.what = what
        self.why = (why,) if isinstance(why, str) else tuple(why)
        self.fix = fix
        self.where = (where,) if isinstance(where, str) else tuple(where)
        super().__init__(str(self))

    def __str__(self) -> str:
        why, where = (
            [line for part in block if part for line in part.splitlines()] for block in (self.why, self.where)
        )
        head = f"{self.what} [{self.code}] {self.upstream_code}".rstrip()
        # A fix holds code to paste, whose blank lines stay.
        sections = (*_section("why", why), *_section("fix", self.fix.splitlines()), *_section("where", where))
        return "\n".join([head, *sections])

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from the facts, so that an error raised in a compile worker arrives whole."""
        return _rebuild, (type(self), self.what, self.why, self.fix, self.where)


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [f"  {title}:", *(f"    {line}" if line else "" for line in lines)] if lines else []


def _rebuild(
    cls: type[TorchAirError], what: str, why: tuple[str, ...], fix: str, where: tuple[str, ...]
) -> TorchAirError:
    return cls(what, why=why, fix=fix, where=where)


# --- configuration (TA1xx) ---------------------------------------------------------------------------------------


class ConfigValueError(TorchAirError, ValueError):
    """An option was given a value that it does not accept, or a text that cannot be read."""

    code = "TA101"
    upstream_code = "ERR03005"


class ConfigTypeError(TorchAirError, TypeError):
    """An option was given a value of a kind that it does not accept."""

    code = "TA102"
    upstream_code = "ERR03005"


class ConfigFileNotFoundError(TorchAirError, FileNotFoundError):
    """An option that names an existing file or directory was given something else."""

    code = "TA103"
    upstream_code = "ERR03005"


class UnknownOptionError(TorchAirError, ValueError, AttributeError):
    """No option has that name. An AttributeError too, so that ``hasattr`` and ``copy`` see what they expect."""

    code = "TA104"
    upstream_code = "ERR03005"


class ProcessOptionsError(TorchAirError, ValueError):
    """A graph asks for other process-wide options than the first graph of the process fixed."""

    code = "TA105"
    upstream_code = "ERR03005"


# --- conversion (TA2xx) ------------------------------------------------------------------------------------------


class UnconvertedOperatorsError(TorchAirError, RuntimeError):
    """Operators of the graph have no Ascend IR form, and the user asked for an error instead of running them."""

    code = "TA201"


class ConverterRegistrationError(TorchAirError, TypeError):
    """``register_fx_node_ge_converter`` was given something that is not one operator overload, or a bad function."""

    code = "TA202"


class ConversionError(TorchAirError, RuntimeError):
    """A converter raised; the original exception is the cause."""

    code = "TA203"


class ConverterResultError(TorchAirError, RuntimeError):
    """A converter returned another number or other types of results than the operator promises."""

    code = "TA204"


class AutoConversionError(TorchAirError, RuntimeError):
    """An operator without a converter cannot be converted by its schema either."""

    code = "TA205"


class PrototypeNotFoundError(TorchAirError, RuntimeError):
    """No Ascend IR prototype of that name is known."""

    code = "TA206"


class PrototypeError(TorchAirError, ValueError):
    """A declared prototype is malformed, or clashes with another."""

    code = "TA207"


class PrototypeArgumentTypeError(TorchAirError, TypeError):
    """An argument of an IR operator is of another kind than the prototype asks for."""

    code = "TA208"


class PrototypeArgumentCountError(TorchAirError, IndexError):
    """An IR operator was given too few or too many positional arguments."""

    code = "TA209"


class ArgumentError(TorchAirError, AssertionError, ValueError):
    """A public function of ``torchair.ge`` was called with an argument that it cannot take."""

    code = "TA210"


class ArgumentTypeError(TorchAirError, TypeError):
    """A public function was called with an argument of a kind that it does not take."""

    code = "TA217"


class EagerCallError(TorchAirError, NotImplementedError):
    """A function that only means something in a compiled graph was called outside one."""

    code = "TA218"


class NoGraphError(TorchAirError, RuntimeError):
    """A ``torchair.ge`` function was called outside a converter."""

    code = "TA211"


class MutationError(TorchAirError, RuntimeError):
    """An operator writes an argument in a way that a functional graph cannot express."""

    code = "TA212"


class ScopeError(TorchAirError, RuntimeError):
    """Scopes of a graph do not fit together, or its streams do not: one has no partner, or contradicts another one."""

    code = "TA215"


class ReplacementError(TorchAirError, RuntimeError, ValueError):
    """A replacement of a pattern in FX graphs cannot be registered, or gives something else than it replaces."""

    code = "TA216"


class SchemaError(TorchAirError, ValueError):
    """The text of an operator's schema cannot be read, or has a name or a type that a custom operator must not have."""

    code = "TA219"


class OperatorFileError(TorchAirError, ValueError):
    """A file that describes operators (JSON prototypes, ``op_plugin_functions.yaml``) is malformed."""

    code = "TA220"


class OperatorFileNotFoundError(OperatorFileError, FileNotFoundError):
    """:class:`OperatorFileError` for a file that is not there."""


class OutputRuleError(TorchAirError, ValueError, RuntimeError):
    """A rule for the size or dtype of an operator's output cannot be read, or gives nothing for the arguments."""

    code = "TA221"


class OperatorClashError(TorchAirError, ValueError, RuntimeError):
    """An operator of that name is defined with another schema."""

    code = "TA222"


class ProjectError(TorchAirError, ValueError, RuntimeError):
    """A folder is no operator project, or what was asked for cannot be made in it."""

    code = "TA223"


class SampleFileError(TorchAirError, ValueError):
    """A file of sample calls for an operator cannot be used."""

    code = "TA224"


class MissingFakeKernelError(TorchAirError, RuntimeError):
    """A custom operator has no meta function (fake kernel)."""

    code = "TA214"


# --- IR (TA3xx) --------------------------------------------------------------------------------------------------


class IRError(TorchAirError, ValueError):
    """An IR graph is not well formed, or an edit would make it so."""

    code = "TA301"


class IRTextError(IRError):
    """A text form cannot be read."""

    code = "TA302"


class TypeRuleError(TorchAirError, RuntimeError):
    """The type rule of an IR operator refuses these inputs; the original exception is the cause."""

    code = "TA303"


class ShapeError(TorchAirError, ValueError):
    """A symbolic size has no value where one is needed."""

    code = "TA304"


class PassError(TorchAirError, RuntimeError):
    """A graph pass failed, or left an invalid graph behind; the original exception is the cause."""

    code = "TA305"


# --- engines and execution (TA4xx) -------------------------------------------------------------------------------


class EngineError(TorchAirError, ValueError):
    """The engine asked for does not exist or cannot run here."""

    code = "TA401"


class MissingKernelError(TorchAirError, NotImplementedError):
    """An IR operator has nothing that could run it on this machine."""

    code = "TA402"


class ExecutionError(TorchAirError, RuntimeError):
    """A node failed while the compiled graph ran; the original exception is the cause.

    What is raised also derives from the built-in class of the cause (``IndexError``, ``ValueError``, ...), so that the
    ``except`` clauses of eager code keep working.
    """

    code = "TA403"

    @classmethod
    def of(cls, cause: Exception, node: str, *, where: str | Sequence[str] = ()) -> ExecutionError:
        """The error for an operator that failed.

        Args:
            cause: What it raised.
            node: Which operator it was.
        """
        kind = next((ours for theirs, ours in _EXECUTION_ERRORS.items() if isinstance(cause, theirs)), cls)
        return kind(
            "An operator failed while the compiled graph ran",
            why=[node, f"{type(cause).__name__}: {shortened(cause)}"],
            fix=_kernel_fix(cause, node)
            or "Compare with eager mode: the same operator fails there too if its inputs are wrong.",
            where=where,
        )


#: How PyTorch's dispatcher begins when an operator has no kernel for a device. Pages about all its keys follow.
_NO_KERNEL = re.compile(r"Could not run '(?P<operator>[^']*)' with arguments from the '(?P<key>[^']*)' backend\.")


def shortened(cause: BaseException) -> str:
    """The text of an exception; of the dispatcher's pages about a missing kernel, the first sentence."""
    text = str(cause)
    found = _NO_KERNEL.match(text)
    return found[0] if found and isinstance(cause, NotImplementedError) else text


def _kernel_fix(cause: Exception, node: str) -> str:
    """What to register for a custom operator without a kernel; empty for other failures."""
    found = _NO_KERNEL.match(str(cause)) if isinstance(cause, NotImplementedError) else None
    if found is None:
        return ""
    namespace, _, name = found["operator"].partition("::")
    if namespace in ("aten", "prims", "quantized"):
        return ""
    text = (
        f"Register a kernel of the torch operator:\n\n"
        f'@torch.library.impl("{found["operator"]}", "{found["key"]}")\n'
        f"def {name.partition('.')[0]}(*args):\n"
        f"    ...  # compute and return the results\n"
    )
    ir_operator = node.partition(" ")[0]
    if ir_operator.isidentifier():
        text += f'\nor one of the Ascend IR operator: @torchair.ge.register_kernel("{ir_operator}")\n'
    return text + f'\ntorchair.check_operator("{found["operator"]}") lists what else it lacks.'


class ExecutionIndexError(ExecutionError, IndexError):
    """:class:`ExecutionError` for an index out of range."""


class ExecutionNotImplementedError(ExecutionError, NotImplementedError):
    """:class:`ExecutionError` for an operator without a kernel for these inputs."""


class ExecutionTypeError(ExecutionError, TypeError):
    """:class:`ExecutionError` for an argument of the wrong type."""


class ExecutionValueError(ExecutionError, ValueError):
    """:class:`ExecutionError` for an argument of the wrong value."""


class ExecutionAssertionError(ExecutionError, AssertionError):
    """:class:`ExecutionError` for an assertion that does not hold."""


_EXECUTION_ERRORS: dict[type[Exception], type[ExecutionError]] = {
    IndexError: ExecutionIndexError,
    NotImplementedError: ExecutionNotImplementedError,
    TypeError: ExecutionTypeError,
    ValueError: ExecutionValueError,
    AssertionError: ExecutionAssertionError,
}


class GraphInputError(TorchAirError, AssertionError):
    """A compiled graph was called with inputs that it was not compiled for."""

    code = "TA404"


class OutputCheckError(TorchAirError, RuntimeError):
    """A graph output differs from what the operators' meta functions promised."""

    code = "TA405"


class UnsupportedGraphError(TorchAirError, NotImplementedError):
    """The chosen engine cannot run a graph that another engine can."""

    code = "TA406"


class EngineCompileError(TorchAirError, RuntimeError):
    """An engine failed to compile a graph that it should be able to run; the original exception is the cause."""

    code = "TA407"


class OperatorContractError(TorchAirError, RuntimeError):
    """A kernel does something else than its fake kernel and its schema promise."""

    code = "TA408"


class ForeignMemoryError(TorchAirError, RuntimeError):
    """A tensor cannot be made over memory of somebody else."""

    code = "TA409"


class BuildError(TorchAirError, RuntimeError):
    """A C++ source does not compile, or the result cannot be kept or loaded."""

    code = "TA410"


class CaptureError(TorchAirError, RuntimeError):
    """A graph cannot be captured, or a captured graph cannot be run with what it was given."""

    code = "TA411"


class VerificationError(TorchAirError, RuntimeError):
    """A compiled graph computes something else than eager mode (option ``verify_every``)."""

    code = "TA412"


class UnavailableFeatureError(TorchAirError, NotImplementedError):
    """A public feature that this version does not have."""

    code = "TA501"


# --- files (TA6xx) -----------------------------------------------------------------------------------------------


class TraceFileError(TorchAirError, ValueError):
    """A file is no trace of a task list, or a task in it lacks what a tool needs."""

    code = "TA601"


class TraceFileNotFoundError(TraceFileError, FileNotFoundError):
    """:class:`TraceFileError` for a file that is not there."""


class OutputFileError(TorchAirError, OSError):
    """A file that was asked for (a trace, a saved tensor) cannot be written."""

    code = "TA602"


def unavailable(name: str, instead: str = "") -> UnavailableFeatureError:
    """The error for a public name that exists, so that programs can be imported, and does nothing yet.

    Args:
        name: As users write it: ``torchair.inference.cache_compile``.
        instead: What to do without it.
    """
    return UnavailableFeatureError(
        "A feature is not in this version", why=f"{name} has its name here, and no implementation yet", fix=instead
    )
