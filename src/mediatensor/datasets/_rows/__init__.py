"""Rows of a dataset, and how a row becomes a sample. Nothing here depends on how rows are batched."""
