"""The parsers with atheris, which looks for bytes that reach new code.

``python -m tests.fuzz.coverage_guided sample_tables --seconds 300`` runs one of `parsers.PARSERS`; failing inputs
are written to ``crash-...`` in the working directory.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. atheris ends the process when its time is over, or when it found something."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.coverage_guided", description=__doc__)
    parser.add_argument("name", help="a parser; see tests/fuzz/parsers.py")
    parser.add_argument("--seconds", type=int, default=60, help="how long (default: 60)")
    options = parser.parse_args(arguments)
    try:
        import atheris
    except ImportError:
        print("needs atheris: pip install atheris (it has wheels for Linux)", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["mediatensor.decoders", "mediatensor.datasets", "mediatensor.ocr"]):
        from fuzz.parsers import PARSERS, seeds_of
    if options.name not in PARSERS:
        parser.error(f"{options.name!r} must be one of {', '.join(PARSERS)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "corpus").mkdir()
        for number, seed in enumerate(seeds_of(options.name, folder)):
            (folder / "corpus" / str(number)).write_bytes(seed)
        tempfile.tempdir = name
        flags = [f"-max_total_time={options.seconds}", "-timeout=20", "-rss_limit_mb=4096", "-max_len=100000"]
        atheris.Setup([sys.argv[0], *flags, str(folder / "corpus")], PARSERS[options.name][0])
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    tests = Path(__file__).parents[1]
    sys.path[:0] = [str(tests), str(tests / "shared")]
    os.environ.setdefault("SVT_LOG", "0")
    sys.exit(main())
