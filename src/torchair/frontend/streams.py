"""How nodes of an FX graph say on which stream they run; see :mod:`torchair.streams`."""

from torchair.streams import (
    DEFAULT,
    SCOPE,
    STREAM,
    is_record,
    is_wait,
    orders_streams,
    set_stream,
    stream_of,
)

__all__ = ["DEFAULT", "SCOPE", "STREAM", "is_record", "is_wait", "orders_streams", "set_stream", "stream_of"]
