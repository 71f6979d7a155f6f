"""Comparisons of mediatensor with other video decoders: ``python -m benchmarks SUITE``."""
