"""Batches: choose the rows of each batch, collate samples into a batch, and move batches to a device."""
