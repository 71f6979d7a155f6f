"""Wrap FFmpeg. This is the only package of the library that imports PyAV (``av``).

It hides the differences between PyAV's major versions, such as types of fractions and available arguments. The rest of
the library gets plain Python values and NumPy arrays, and passes on frames and packets as opaque objects.
"""
