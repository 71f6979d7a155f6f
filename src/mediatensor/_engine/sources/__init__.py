"""Read bytes from any kind of source, and write files either completely or not at all."""
