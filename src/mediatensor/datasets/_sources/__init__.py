"""Sources of the rows of datasets: folders, manifests, Parquet, Lance, Hugging Face, tar shards.

`items` has the data type, `Item`: one file with its label. `dispatch` makes items from any source with `manifests`
(text manifests and folders), `parquet` (also Hugging Face datasets), `lance` and `tar_shards`; it also describes items
by plain columns, which can be sent to other machines. `rows` makes items from rows of named columns, and of tables with
media in them, finds subtitle files, and reads media values in Arrow memory. `parquet_pages` locates single values in
Parquet files. `lerobot` lists the episodes of LeRobot datasets, and `lerobot_tables` reads their rows. `limits` has
limits for all sources. Nothing here decodes a file.
"""
