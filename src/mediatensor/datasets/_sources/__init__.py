"""Sources of the rows of datasets: folders, manifests, Parquet, Lance, Hugging Face, tar shards, streams.

`items` has the data type, `Item`: one file with its label. `dispatch` makes items from any source with `manifests`
(text manifests and folders), `parquet` (also Hugging Face datasets), `lance` and `tar_shards`. `rows` makes items from
rows of named columns, and finds subtitle files. `tables` has the rows of tables with media in them, and media values in
Arrow memory. `parquet_pages` locates single values in Parquet files. `lerobot` lists the episodes of LeRobot datasets,
and `lerobot_tables` reads their rows. `streams` has items that can only be read in order. `references` describes items
by plain columns, which can be sent to other machines. `limits` has limits for all sources. Nothing here decodes a file.
"""
