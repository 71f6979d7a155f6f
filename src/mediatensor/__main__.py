"""``python -m mediatensor``: the `mediatensor` command."""

from __future__ import annotations

import sys

from .cli import main

# Spawned worker processes import this module again, and must not run the command.
if __name__ == "__main__":
    sys.exit(main())
