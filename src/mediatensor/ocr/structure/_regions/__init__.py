"""Regions of a page: words become lines, lines blocks, and blocks regions of a kind, in the order of reading."""
