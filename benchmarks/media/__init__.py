"""Benchmarks of decoding and encoding."""
