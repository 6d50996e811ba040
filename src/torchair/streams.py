"""How nodes of an FX graph say on which stream they run: what frontends write, and what records plans reads.

A node on another stream than the default one has its label, a string, in ``meta["torchair_stream"]``. Order beyond data
is nodes that stay in the graph: ``record()`` returns a token for all that was issued before it on its stream, and
``wait([...])`` lets the next operator on its stream start after what tokens stand for, and after the makers of tensors.
"""

from __future__ import annotations

from torch import fx

from torchair._torch_compat import OpOverload

__all__ = ["DEFAULT", "SCOPE", "STREAM", "is_record", "is_wait", "orders_streams", "set_stream", "stream_of"]

#: The key in ``meta``. Its value is a string, so that it survives copies of the node.
STREAM = "torchair_stream"

#: The key of what else its scopes said, a ``torchair.native.scopes.Mark``.
SCOPE = "torchair_scope"

#: The label of the stream that a graph begins on.
DEFAULT = ""

_RECORD = ("npugraph_ex::record", "air::record")
_WAIT = ("npugraph_ex::wait", "air::wait")


def stream_of(node: fx.Node) -> str:
    """The label of the stream that a node runs on; empty for the default one."""
    return str(node.meta.get(STREAM, DEFAULT))


def set_stream(node: fx.Node, label: str) -> None:
    """Let a node run on the stream of that label."""
    if label == DEFAULT:
        node.meta.pop(STREAM, None)
    else:
        node.meta[STREAM] = label


def is_record(node: fx.Node) -> bool:
    """True for a token: all that was issued so far on its stream."""
    return isinstance(node.target, OpOverload) and node.target._schema.name in _RECORD


def is_wait(node: fx.Node) -> bool:
    """True for what lets the next operator on its stream wait for tokens and for the makers of tensors."""
    return isinstance(node.target, OpOverload) and node.target._schema.name in _WAIT


def orders_streams(node: fx.Node) -> bool:
    """True for a token, a wait, and their forms with tags: an operator must not be moved from one side to the other."""
    if not isinstance(node.target, OpOverload):
        return False
    name = node.target._schema.name
    return name in (*_RECORD, *_WAIT) or name.startswith("npugraph_ex::tagged_")
