"""Batches: which rows make which batch, and how a batch reaches its device.

`order` shuffles rows and divides them into batches and among ranks. `resuming` tracks the position in an epoch or a
stream. `collate` makes a batch of samples. `loader` combines these in torch's ``DataLoader``, and tracks the position
of each iteration. `to_device` copies one batch while the previous one is used. Nothing in this package reads a file.
"""
