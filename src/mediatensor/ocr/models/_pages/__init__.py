"""Prepare pages for networks.

* ``preprocessing``: convert input to page tensors and network batches, and boxes back to page coordinates;
* ``straightening``: estimate the turn of a page, rotate it upright, and transform boxes in both directions.
"""
