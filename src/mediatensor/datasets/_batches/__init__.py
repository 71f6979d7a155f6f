"""Batches: choose their rows, make them from samples, and move them to a device. Samples are read by datasets."""
