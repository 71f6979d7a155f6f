"""Sources of the rows of datasets: folders, manifests, tables, tar shards, robots. Nothing here decodes a file."""
