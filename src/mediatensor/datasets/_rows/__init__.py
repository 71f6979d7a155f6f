"""Rows of a dataset, and how a row becomes a sample.

`samples` has the data types. `recipe` has `RowSpec`, which describes a row: its file, its seeds, and the `Recipe` that
opens the file and reads a sample from it. `RowReader` reads rows under the error policy. `dataset` has datasets of rows
with indices, and `tar_samples` has streams. Recipes share `clips` and `captions`. `transport` moves tensors from a
worker to the training process. Nothing in this package depends on which rows make a batch.
"""
