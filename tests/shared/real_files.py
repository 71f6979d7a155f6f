"""Where the real media files and documents are that some tests read."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["TEST_DATA"]

# A folder next to the checkout, or the one in the variable; it contains the folder ``media``.
TEST_DATA = Path(os.environ.get("MEDIATENSOR_TEST_DATA") or Path(__file__).parents[3] / "shared" / "data")
