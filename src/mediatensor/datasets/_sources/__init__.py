"""Where the rows of datasets come from: folders, manifests, Parquet, Hugging Face, tar shards, streams."""
