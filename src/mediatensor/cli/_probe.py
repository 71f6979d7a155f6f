"""``mediatensor probe``: what is in a file, exact where the headers only guess."""

from __future__ import annotations

import argparse
from dataclasses import replace

from ._console import EXIT_ERROR, emit, emit_error, emit_json, file_error, for_each_file, shown_name
from ._file_facts import collect
from ._probe_text import describe

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    is_first = True

    def probe(path: str, file: str) -> int:
        nonlocal is_first
        facts = replace(collect(path, args.stream, scan=not args.no_scan), file=shown_name(file))
        if args.json:
            emit_json(facts)
        else:
            emit(describe(facts) if is_first else f"\n{describe(facts)}")
        is_first = False
        if facts.error is None:
            return 0
        emit_error(file_error(file, path, Exception(facts.error)))
        return EXIT_ERROR  # a file that cannot be decoded

    return for_each_file(args.files, probe)
