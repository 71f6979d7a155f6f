"""Accuracy of the structure of pages: ``python -m benchmarks.text.structure fields --pages FOLDER``.

Each kind of structure is a command with its own truth and measure: see ``--help``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from . import structure_fields, structure_forms, structure_regions, structure_rules, structure_tables


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.text.structure", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    structure_fields.add_command(commands)
    structure_forms.add_command(commands)
    structure_regions.add_commands(commands)
    structure_tables.add_command(commands)
    structure_rules.add_command(commands)
    options = parser.parse_args(arguments)
    return int(options.run(options))


if __name__ == "__main__":
    raise SystemExit(main())
