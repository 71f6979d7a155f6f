"""Checks of the files of a dataset, to make before training."""
