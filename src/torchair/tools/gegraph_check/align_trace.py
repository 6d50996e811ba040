"""``align_trace_json``: a trace by what waits for what (specification, F-119).

As a program: ``python -m torchair.tools.gegraph_check.align_trace --help``.
"""

import sys

from torchair.trace.align import align_trace_json
from torchair.trace.command import align_main

__all__ = ["align_trace_json"]

if __name__ == "__main__":
    sys.exit(align_main())
