"""``python -m tests.fuzz --cases 20000 --seed 0``; see `fuzz.run`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # Other modules of tests are imported by their names, and one module must not be there twice under two.
    tests = Path(__file__).parents[1]
    sys.path[:0] = [str(tests), str(tests / "shared")]
    os.environ.setdefault("SVT_LOG", "0")
    from fuzz.run import main

    sys.exit(main())
