"""What is wrong with the files of a dataset, found before a training meets it.

`findings` has the types and what each kind of finding means. `media` checks one file: it opens it, decodes it, and asks
`pictures`, `sound` and `headers`, which are pure. `comparing` finds faults that only show between files, and `rows`
rows that do not fit their files. `checking` does that for all files, in processes, and keeps what is done; `lerobot`
knows the tables and videos of such a dataset. `report` has the result as text, JSON and a manifest, `page` as HTML.
"""
