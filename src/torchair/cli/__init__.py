"""The command line: ``torchair op new | build | install | proto | check``. Needs the extra ``cli`` (click, rich)."""
