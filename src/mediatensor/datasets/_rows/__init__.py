"""Rows of a dataset: how each becomes a sample.

`samples` has the data types. A row is a `RowSpec` in `recipe`: its file, its seeds, and the `Recipe` that opens the
file and reads a sample of it; `RowReader` reads rows under the error policy. `dataset` and `tar_samples` are datasets
of rows, with indices and as a stream. `clips`, `captions` and `segments` are shared by recipes, and `transport` moves
tensors from worker to trainer. Nothing in this package depends on which rows make a batch.
"""
