"""Mutated files in, a result or a `MediaTensorError` out: what no file may do to a program that reads it.

::

    corpus ─► mutations ─► reading ──────────► worker ◄── one line for each case ──► supervisor ─► run, test_fuzz
    files     a damaged    calls of a program   a process   outcome, or nothing:       notes the case that
    by kind   file         with a file          with limits it crashed or hangs        killed a worker

A case is a kind of file and a seed, and nothing is stored: ``python -m tests.fuzz --case video 17`` makes the file
again and reads it. `CONTRIBUTING.md` says how to run many, and how to add a kind.
"""
