"""Which rows make which batch, and how a batch reaches its device.

`order` shuffles rows and divides them into batches and among ranks. `resuming` tracks the position in an epoch or a
stream, and `iterations` the position of each iteration over a loader. `collate` makes a batch of samples, `loader` ties
these together for torch's ``DataLoader``, and `to_device` copies one batch while the one before it is used. Nothing in
this package reads a file.
"""
