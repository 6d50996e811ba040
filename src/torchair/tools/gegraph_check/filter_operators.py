"""``filter_comm_ops``: the tasks of a trace that decide about deadlocks (specification, F-119).

As a program: ``python -m torchair.tools.gegraph_check.filter_operators --help``.
"""

import sys

from torchair.trace.command import filter_main
from torchair.trace.filtering import filter_comm_ops

__all__ = ["filter_comm_ops"]

if __name__ == "__main__":
    sys.exit(filter_main())
