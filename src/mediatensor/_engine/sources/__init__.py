"""Read bytes from anywhere, and write files completely or not at all."""
