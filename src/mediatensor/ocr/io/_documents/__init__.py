"""Documents in: images, TIFF and PDF files, whose pages are read when they are asked for."""
