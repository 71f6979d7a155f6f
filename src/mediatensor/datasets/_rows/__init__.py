"""The rows of a dataset: which file each row reads, and how it becomes a sample. Batches are made elsewhere."""
