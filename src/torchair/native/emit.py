"""Groups -> the text of C++ functions. Pointers and sizes are arguments, so that equal groups are one function."""

from __future__ import annotations

from collections.abc import Mapping

from torchair.native.emit_columns import ColumnsEmitter
from torchair.native.emit_elements import ElementsEmitter
from torchair.native.emit_products import AttentionEmitter, ProductsEmitter
from torchair.native.emit_rows import RowsEmitter
from torchair.native.emitter import Emitter, Kernel
from torchair.native.expressions import Buffer, Builder
from torchair.native.schedule import Group

__all__ = ["Kernel", "emit"]

_EMITTERS: Mapping[str, type[Emitter]] = {
    "elements": ElementsEmitter,
    "rows": RowsEmitter,
    "columns": ColumnsEmitter,
    "product": ProductsEmitter,
    "attention": AttentionEmitter,
}


def emit(group: Group, builder: Builder, stored: frozenset[Buffer], errors: Buffer) -> Kernel:
    """The kernel of a group.

    Args:
        stored: Buffers that somebody outside of the group reads.
        errors: Where indices out of range are reported.

    Raises:
        Unsupported: A size has a form that is not known here.
    """
    return _EMITTERS[group.kind](group, builder, set(stored), errors).kernel()
