"""Seeded faults: does the suite find small mistakes in the source? ``python -m tests.faults``."""
