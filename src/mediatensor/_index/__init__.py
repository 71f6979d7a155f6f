"""Which frames a stream has: the index, how it is made, and where it is kept.

`frame_index` is the data type. `scan` reads packets, `header_table` reads the tables of a header, `building` makes an
index of either, `index_file` and `cache` keep it. Nothing here decodes for a user: that is the video room's.
"""
