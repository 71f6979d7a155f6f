"""Batches: choose their rows, make them from samples, and move them to a device.

`resuming` shuffles rows, divides them into batches and among ranks, and tracks the position in an epoch or a stream.
`collate` makes a batch from samples. `loader` combines these in torch's ``DataLoader``, and tracks the position of each
iteration. `to_device` copies a batch while the previous one is used. Nothing in this package reads a file.
"""
