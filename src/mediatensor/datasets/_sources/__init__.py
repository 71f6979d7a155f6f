"""Where the rows of datasets come from: folders, manifests, Parquet, Hugging Face, tar shards, streams.

`items` has the data type, `Item`: one file, with its label. `dispatch` makes items of whatever users have: it
asks `manifests` (also for folders), `parquet` (also for Hugging Face), `lance` and `tar_shards`. `tables` has the rows
of tables with media in them: `parquet_pages` finds single values in Parquet files, `arrow` those in memory. `sidecars`
has subtitle files beside media, `lerobot` the episodes of robots, which are in several files each. `streams` gives
items that can only be read forward. `references` names items by plain columns, for rows that travel to other machines.
`order` names the files of a dataset in their order, for states that go to other machines. `limits` bounds all of them.
Nothing in this package decodes a file.
"""
