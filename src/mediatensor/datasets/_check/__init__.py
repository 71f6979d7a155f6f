"""Checks of the files of a dataset, before a training reads them.

`findings` has the types and the kinds of findings. `media` checks one file: it opens and decodes it, and calls
`pictures` and `sound`, which are pure. `comparing` finds faults that only show between files, and rows that contradict
their files. `checking` runs this for all files, in processes, and stores finished results; `lerobot` checks the tables
and videos of such a dataset. `report` has the result as text, JSON and a manifest, `page` as HTML.
"""
