"""A page on its way through the networks: as a tensor, upright, cut into lines, and its words told apart."""
