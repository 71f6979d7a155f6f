"""Build, compare and store the index of a stream: the list of its frames, with their times and key frames.

`indexing` chooses between two ways to list the packets: `scan` reads all of them, and `header_table` reads only
headers. `building` then makes the index from this list.
"""
