"""``deadlock_check``: tasks of a trace that could wait for each other forever (specification, F-119).

As a program: ``python -m torchair.tools.gegraph_check.deadlock_check --help``.
"""

import sys

from torchair.trace.command import check_main
from torchair.trace.deadlock import deadlock_check

__all__ = ["deadlock_check"]

if __name__ == "__main__":
    sys.exit(check_main())
