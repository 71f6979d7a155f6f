"""Documents out: a module for each format, over the two views that they share, `reading` and `regions`."""
