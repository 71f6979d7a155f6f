"""Checks of the files of a dataset, before a training reads them.

`findings` has the types and kinds of findings. `media` checks one file: it opens and decodes the file, and calls the
pure functions of `contents`. `comparing` finds faults that only show between files, rows that contradict their files,
and faults in the tables of LeRobot datasets. `checking` checks all files in processes, and stores finished results.
`report` has the result as text, JSON, HTML and a manifest.
"""
