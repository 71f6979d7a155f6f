"""Record the current public API: ``python tests/shared/record_public_api.py``, then look at the diff."""

from __future__ import annotations

from public_api import RECORD, describe_api

if __name__ == "__main__":
    RECORD.write_text(describe_api(), encoding="utf-8")
    print(f"wrote {RECORD}")
