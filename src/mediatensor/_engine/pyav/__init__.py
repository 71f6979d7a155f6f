"""Everything that touches PyAV: the only package here that imports ``av``.

The differences between PyAV's major versions (fractions or rationals, which arguments exist) end in these modules;
the rest of the library sees plain Python values, numpy arrays, and frames as opaque handles.
"""
