"""Beneath all networks: which architectures there are, their weights, shared layers, and the device that they run on.

* ``registry``: the names of architectures, where each is made, and what is published for it;
* ``weights``: finding, checking and loading files of weights; ``onnx`` reads those that come as ONNX;
* ``checkpoints``: trained networks in files of ours;
* ``blocks``: layers that several networks share; ``fused`` runs them quicker on a CPU;
* ``transfers``: copies to a device and back, each of them counted; networks that may be compiled;
* ``spreading``: pages and batches of lines on threads of their own;
* ``whitelist``: recognisers that may read certain characters only.

Nothing in this room knows a task, a page or a predictor.
"""

from .blocks import (
    ConvNorm,
    DropPath,
    EncoderBlock,
    FeatureExtractor,
    MultiHeadAttention,
    PositionwiseFeedForward,
    SqueezeExcitation,
    Stem,
    conv_sequence_pt,
    make_stage,
    parameter_layers,
)
from .checkpoints import Checkpoint, chosen_network, is_checkpoint, load_checkpoint, read_checkpoint, save_checkpoint
from .fused import convolve, multiply
from .onnx import OnnxGraph, fill_layers, read_onnx, with_output
from .registry import (
    ModelCard,
    list_models,
    make_predictor,
    model_card,
    network_factory,
    refuse_unknown,
    register_predictor,
)
from .spreading import spread, spreads
from .transfers import (
    at_least_float32,
    compile_network,
    constant,
    download,
    have_all_ended,
    is_compiled,
    plain,
    upload,
    upload_images,
    with_open_sizes,
)
from .weights import (
    MODELS_FOLDER_VARIABLE,
    checked_network,
    checksum_in_name,
    compare_checksum,
    find_weights,
    given_file,
    is_file,
    load_pretrained_params,
    load_state_dict_file,
    load_weights,
    read_safely,
)
from .whitelist import WhitelistHandle, add_whitelist

__all__ = [
    "MODELS_FOLDER_VARIABLE",
    "Checkpoint",
    "ConvNorm",
    "DropPath",
    "EncoderBlock",
    "FeatureExtractor",
    "ModelCard",
    "MultiHeadAttention",
    "OnnxGraph",
    "PositionwiseFeedForward",
    "SqueezeExcitation",
    "Stem",
    "WhitelistHandle",
    "add_whitelist",
    "at_least_float32",
    "checked_network",
    "checksum_in_name",
    "chosen_network",
    "compare_checksum",
    "compile_network",
    "constant",
    "conv_sequence_pt",
    "convolve",
    "download",
    "fill_layers",
    "find_weights",
    "given_file",
    "have_all_ended",
    "is_checkpoint",
    "is_compiled",
    "is_file",
    "list_models",
    "load_checkpoint",
    "load_pretrained_params",
    "load_state_dict_file",
    "load_weights",
    "make_predictor",
    "make_stage",
    "model_card",
    "multiply",
    "network_factory",
    "parameter_layers",
    "plain",
    "read_checkpoint",
    "read_onnx",
    "read_safely",
    "refuse_unknown",
    "register_predictor",
    "save_checkpoint",
    "spread",
    "spreads",
    "upload",
    "upload_images",
    "with_open_sizes",
    "with_output",
]
