"""Checks of the files of a dataset, before a training reads them.

`findings` has the types and kinds of findings. `media` checks one file: it opens and decodes the file, and calls the
pure functions of `pictures` and `sound`. `comparing` finds faults that only show between files, and rows that
contradict their files. `checking` checks all files in processes, and stores finished results. `lerobot` checks the
tables and videos of LeRobot datasets. `report` has the result as text, JSON and a manifest, and `page` as HTML.
"""
