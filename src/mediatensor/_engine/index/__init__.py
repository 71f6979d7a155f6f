"""Build, compare and store the index of a stream: the list of its frames.

`frame_index` defines the data type. `scan` reads packets, and `header_table` reads tables in headers and headers of
blocks; `indexing` chooses between them. `building` makes the index, `holes` finds missing frames, `index_file` stores
indexes, and `frame_clock` compares requested times with frame times.

This package uses readers and sources, but never an open video.
"""
