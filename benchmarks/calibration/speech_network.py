"""Convert the weights of the speech network from an ONNX file of silero-vad to the file in this package.

The ONNX file is ``silero_vad/data/silero_vad_16k_op15.onnx`` in the wheel of silero-vad. The wheel of version 6.2.3
also contains ``silero_vad_16k.safetensors``, but with weights of an earlier release: probabilities differ by up to 0.4.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mediatensor.samplers._speech import WEIGHTS_FILE

from ..shared.options import make_parser

# Names of tensors in the ONNX file, without their prefix "model.", by their names in the file of this package.
_NAMES = {
    "fft.weight": "stft.forward_basis_buffer",
    **{
        f"convolution{number}.{part}": f"encoder.{number}.reparam_conv.{part}"
        for number in range(4)
        for part in ("weight", "bias")
    },
    "recurrent.input": "decoder.rnn.weight_ih",
    "recurrent.state": "decoder.rnn.weight_hh",
    "recurrent.input_bias": "decoder.rnn.bias_ih",
    "recurrent.state_bias": "decoder.rnn.bias_hh",
    "output.weight": "decoder.decoder.2.weight",
    "output.bias": "decoder.decoder.2.bias",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the file, and print its SHA-256."""
    import onnx
    from onnx import numpy_helper

    parser = make_parser("benchmarks.calibration.speech_network", __doc__)
    parser.add_argument("file", type=Path, metavar="FILE.onnx", help="silero_vad_16k_op15.onnx of silero-vad 6.2.3")
    parser.add_argument("-o", "--output", type=Path, default=WEIGHTS_FILE, help="file to write (default: %(default)s)")
    options = parser.parse_args(arguments)
    tensors = {tensor.name: tensor for tensor in onnx.load(options.file).graph.initializer}
    weights = {name: numpy_helper.to_array(tensors[f"model.{given}"]) for name, given in _NAMES.items()}
    weights["output.weight"] = weights["output.weight"].reshape(-1)
    stream = io.BytesIO()
    np.savez_compressed(stream, **weights)
    options.output.write_bytes(stream.getvalue())
    print(f"{options.output}: SHA-256 {hashlib.sha256(stream.getvalue()).hexdigest()}")


if __name__ == "__main__":
    main()
