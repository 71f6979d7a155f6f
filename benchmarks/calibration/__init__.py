"""Scripts that fit the figures that ship with the library."""
