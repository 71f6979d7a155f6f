"""Writing rows to tar and Parquet shards."""
