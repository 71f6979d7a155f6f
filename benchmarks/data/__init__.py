"""Benchmarks of data sets and loaders."""
