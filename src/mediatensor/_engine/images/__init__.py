"""Decode still and animated images.

`reading` opens files and yields bands of rows, `channels` converts the channels of these bands, and `decoding` joins
them to a tensor.
"""
