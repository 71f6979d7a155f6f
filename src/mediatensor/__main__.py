"""``python -m mediatensor``: the `mediatensor` command."""

from __future__ import annotations

import sys

from .cli import main

# Worker processes started by spawn import this module again: they must not run the command.
if __name__ == "__main__":
    sys.exit(main())
