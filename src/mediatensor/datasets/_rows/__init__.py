"""How a row of a dataset becomes a sample.

`samples` has the data types. A row is a `RowSpec` in `recipe`: its file, its seeds, and the `Recipe` that opens the
file and reads a sample of it. `reading` reads rows under the error policy, and `torch_loaders` draws their seeds where
torch's own loader reads them. `dataset` and `tar_samples` are datasets of rows, with indices and as a stream. `clips`,
`captions` and `segments` are what recipes share, and `transport` takes tensors from worker to trainer. Nothing in this
package depends on which rows make a batch.
"""
