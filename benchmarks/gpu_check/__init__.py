"""Checks and measurements of decoding and reading on a GPU: ``python -m benchmarks.gpu_check``."""
