"""Checks to run on the files of a dataset before training."""
