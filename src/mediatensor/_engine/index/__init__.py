"""Build, compare and store the index of a stream: the list of its frames.

`indexing` chooses between `scan`, which reads packets, and `header_table`. `building` makes the index. This package
uses readers and sources, but never an open video.
"""
