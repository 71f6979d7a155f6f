"""Which frames a stream has: the index, how it is made, and where it is kept.

`frame_index` is the data type, `frame_clock` compares times on a grid with the times of its frames. `scan` reads
packets, `header_table` reads the tables of a header and `block_table` the headers of blocks, `building` makes an
index of either, `index_file` and `cache` keep it. `indexing` chooses between them. `proven_codecs` lists the codecs
whose packets can be trusted.

This room knows readers and sources, and no opened video. Decoding for users is the video room's work.
"""
