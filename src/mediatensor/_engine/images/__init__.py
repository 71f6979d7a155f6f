"""Decode still and animated images to pixels.

`formats` detects the format. `png` and `gif` parse files. `reading` reads pixels in bands of rows. `channels` converts
them to the requested channels and bit depth. `decoding` makes a tensor.
"""
