"""Checks of the files of a dataset, before a training reads them."""
