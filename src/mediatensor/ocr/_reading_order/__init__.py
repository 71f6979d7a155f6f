"""The order in which boxes on a page are read: rows, columns of text, parts of a layout. Arrays in, indices out."""
