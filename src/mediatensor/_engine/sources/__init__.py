"""Read bytes from anywhere, and write files.

A `Source` describes a path, a URL, memory or a file object. It can be pickled, and opens a new reader for every handle.
Remote files are fetched in ranges. Files are written completely or not at all.
"""
