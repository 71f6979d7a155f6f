"""Maps of where text is: boxes from the probabilities of a detector, and what it learns from boxes.

* ``boxes``: from a map of probabilities to boxes, straight or at any angle;
* ``colons``: boxes made long enough to hold the colons beside them;
* ``leftovers``: the letters that no box covers, where to look again, and what to make of what is found there;
* ``targets``: from the boxes of a page to the maps that a detector should give, and how far a map is from them.

Nothing in this package depends on a network.
"""
