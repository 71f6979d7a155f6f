"""Sources of dataset rows: folders, manifests, tables, tar shards, LeRobot datasets. Nothing here decodes a file."""
