"""Datasets of document pages and word images, and text reading on many machines."""
