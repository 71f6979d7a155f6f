"""The only package that imports PyAV (``av``).

It hides the differences between PyAV's major versions (such as types of fractions and available arguments). The rest of
the library gets plain Python values, NumPy arrays, and frames as opaque objects.
"""
