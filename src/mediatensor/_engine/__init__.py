"""The private engine of the public packages: it turns the bytes of a source into frames and samples."""
