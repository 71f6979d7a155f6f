"""Benchmarks of the server, and long runs of everything."""
