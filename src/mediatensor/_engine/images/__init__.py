"""Decode still and animated images.

`reading` opens files, reads bands of rows, and joins them to a tensor. `channels` converts the channels of these bands.
"""
