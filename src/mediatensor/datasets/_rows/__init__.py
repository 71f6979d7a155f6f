"""Rows of a dataset, and how a row becomes a sample. Nothing here depends on which rows make a batch."""
