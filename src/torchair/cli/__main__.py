"""``python -m torchair.cli`` is the command ``torchair``."""

from torchair.cli.main import main

main()
