"""The layer below all networks: their registry, their weights, shared layers, and the device that they run on.

* ``registry``: the names of architectures, the module of each, and its published weights;
* ``weights``: finding, checking and loading files of weights and checkpoints; ``onnx`` reads ONNX files;
* ``blocks``: layers that several networks share, and fused calls that run them faster on a CPU;
* ``transfers``: copies to a device and back, networks that may be compiled, and work spread over threads.

Nothing in this package depends on a task, a page or a predictor.
"""
