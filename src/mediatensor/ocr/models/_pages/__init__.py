"""Prepare pages for networks: convert inputs to tensors, make batches of one size, and rotate pages upright.

* ``inputs``: convert paths, arrays, frames and images to page tensors, and detect the language of a text;
* ``preprocessing``: convert page tensors to network batches, and boxes back to page coordinates;
* ``straightening``: estimate the turn of a page, rotate it upright, and transform boxes in both directions.
"""
