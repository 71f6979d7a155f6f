"""What is on a page, made of its picture, or of what its file says is drawn.

`picture` finds `rules`, `pictures` and heavy type (`bold`) in pixels. `drawing` takes lines, areas and pictures of a
PDF page, joins them in the same way, and finds the lines of its words.
"""
