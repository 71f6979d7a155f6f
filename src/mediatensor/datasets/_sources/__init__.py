"""Sources of the rows of datasets: folders, manifests, Parquet, Lance, Hugging Face, tar shards, streams.

`items` has the data type, `Item`: one file, with its label. `dispatch` makes items of any source: it calls `manifests`
(also for folders), `parquet` (also for Hugging Face), `lance` and `tar_shards`. `rows` makes items of rows of named
columns, and finds subtitle files. `tables` has the rows of tables with media in them, and values of Arrow;
`parquet_pages` finds single values in Parquet files. `lerobot` has the episodes of robots, which are in several files
each, and `lerobot_tables` their rows. `streams` has items that can only be read in order. `references` names items by
plain columns, for rows that travel to other machines. `limits` bounds all of them. Nothing in this package decodes a
file.
"""
