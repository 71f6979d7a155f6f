"""Benchmarks of reading text."""
