"""Which rows make which batch, and how a batch reaches its device.

`order` shuffles rows and divides them into batches and among ranks. `resuming` knows how far an epoch, or a stream, has
come, and `iterations` whose position a loader reports.
`collate` makes a batch of samples, `loader` ties these together for torch's ``DataLoader``, and `to_device` copies one
batch while the one before it is used. Nothing in this room reads a file.
"""
