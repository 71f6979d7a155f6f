"""The tree of a document that was read: words, lines, blocks, tables, layout regions, and the data of pages.

These classes are data. Each can export itself into dictionaries as docTR does (`export`, `from_dict`) and render
its text. They know nothing of documents and of other formats. `base` has what all elements share, `leaves` has words,
lines and blocks, `structure` has regions, tables and fields, and `pages` has pages.
"""
