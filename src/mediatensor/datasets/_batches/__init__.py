"""Batches: choose the rows of each batch, collate samples, move batches to a device. Datasets read the samples."""
