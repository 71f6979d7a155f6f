"""Beneath all networks: which architectures there are, their weights, shared layers, and the device that they run on.

* ``registry``: the names of architectures, where each is made, and what is published for it;
* ``weights``: finding, checking and loading files of weights; ``onnx`` reads those that come as ONNX;
* ``checkpoints``: trained networks in files of ours;
* ``blocks``: layers that several networks share; ``fused`` runs them faster on a CPU;
* ``transfers``: copies to a device and back, each of them counted; networks that may be compiled;
* ``spreading``: pages and batches of lines on threads of their own;
* ``whitelist``: recognisers that may read certain characters only.

Nothing in this package depends on a task, a page or a predictor.
"""
