"""Shared base of all networks: their registry, their weights, common layers, and data transfers.

* ``registry``: the names of architectures, their modules, and their published weights;
* ``weights``: find, check and load files of weights and checkpoints; ``onnx`` reads ONNX files;
* ``blocks``: layers that several networks share, with faster implementations for the CPU;
* ``transfers``: copy data between host and device, compile networks, and work in several threads;
* ``preprocessing``: convert pages to tensors and to batches, and boxes back to page coordinates.

This package does not depend on tasks or predictors.
"""
