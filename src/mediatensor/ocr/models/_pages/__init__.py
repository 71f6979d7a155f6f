"""Prepare pages for networks.

* ``preprocessing``: convert input to page tensors and network batches, and boxes back to page coordinates;
* ``straightening``: estimate by how much a page is turned, rotate it upright, and convert boxes between the original
  and the upright page.
"""
