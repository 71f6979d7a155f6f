"""The private engine of the public packages: from the bytes of a source to frames and samples."""
