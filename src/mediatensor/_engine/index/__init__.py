"""Build, compare and store the index of a stream, which lists the stream's frames.

`indexing` chooses between `scan`, which reads packets, and `header_table`, which reads headers. `building` then makes
the index. This package uses readers and sources, but not streams that are open for decoding.
"""
