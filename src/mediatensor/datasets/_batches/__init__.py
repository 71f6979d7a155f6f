"""Batches: choose their rows, make them from samples, and move them to a device. Nothing here reads a file."""
