"""Datasets of document pages and word images, and `TextReader`, which reads text on many machines."""
