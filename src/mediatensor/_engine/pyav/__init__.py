"""The only package that imports PyAV (``av``).

It hides the differences between PyAV's major versions (fractions or rationals, available arguments). The rest of the
library sees plain Python values, NumPy arrays, and frames as opaque objects.
"""
