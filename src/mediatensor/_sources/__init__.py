"""Where bytes come from and where they go.

A `Source` describes a path, a URL, memory or a file object, can be pickled, and gives a fresh reader to every handle.
Remote files are fetched in ranges. Files are written whole or not at all.
"""
