"""Recognisers of text lines that are used instead of the default recogniser, or for scripts that it cannot read.

`load_line_recognizer` loads them from ONNX files. `SCRIPT_FILE` has the weights of a recogniser of Cyrillic, Greek and
Vietnamese letters, in half precision. It is the default recogniser, which ``benchmarks/calibration/script_reader.py``
trained further on rendered lines. It reads only lines that the script classifier assigns to one of these scripts, so it
does not affect the text of other lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ...._engine.common.checks import path_text, shown
from ....errors import InvalidArgumentError, MissingDependencyError, WeightsError
from .._lines.words import is_right_to_left
from .._networks.onnx import OnnxGraph, add_output, read_onnx
from .._networks.transfers import not_compiled, uncompiled_module
from .._networks.weights import check_file, compare_checksum, is_checkpoint, is_file, load_checkpoint
from .ppocr import CtcLineRecognizer

__all__ = ["OnnxLineRecognizer", "load_line_recognizer"]

LARGEST_FILE = 2**27
"""Size limit of an ONNX file in bytes; the largest known line recogniser has 85 million."""
LARGEST_DICTIONARY = 2**21
"""Size limit of a dictionary in bytes; the largest known one has 75 thousand."""
HEIGHT, TRIED_WIDTHS = 48, (320, 640)
RIGHT_TO_LEFT_LETTERS = 20
"""A dictionary with fewer letters of right-to-left scripts is not for a right-to-left script."""

SCRIPT_FILE = Path(__file__).with_name("script_reader.pt")
SCRIPT_FILE_SHA256 = "71792a5fcef75114ad226ad882557ff3ce08d75ed552e8ef44684ce71ddb68ad"
# Ranges of the letters of each script in `SCRIPT_FILE`. All lines can also have Latin letters without accents.
_LETTERS = {
    "Cyrillic": ((0x400, 0x500),),
    "Greek": ((0x370, 0x400),),
    "Vietnamese": ((0xC0, 0x250), (0x1E00, 0x1F00)),
}


class FeatureSession:
    """Runs all layers of a recogniser except the last, with onnxruntime on a single thread.

    Callers process several pages or lines in parallel threads instead.

    ``data`` is the content of an ONNX file. The network in it must have the input ``input_name`` and the output
    ``features_name``, which is the input of the last linear layer. Errors mention ``file``.
    """

    def __init__(self, data: bytes, input_name: str, features_name: str, file: Path) -> None:
        self._state = data, input_name, features_name, file
        try:
            import onnxruntime
        except ImportError:
            raise MissingDependencyError(
                'Recognisers from ONNX files need onnxruntime: pip install "mediatensor[onnx]".'
            ) from None
        options = onnxruntime.SessionOptions()
        # Threads of onnxruntime do not survive a fork, and would compete with the threads that read other lines.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # errors are raised as exceptions instead
        try:
            self._session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the exception types of onnxruntime are not public
            raise WeightsError(f"{file} cannot be used as a network: {_first_line(error)}.") from error

    def __getstate__(self) -> tuple[bytes, str, str, Path]:
        return self._state

    def __setstate__(self, state: tuple[bytes, str, str, Path]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __call__(self, x: Tensor) -> Tensor:
        """Return features (N, T, width) of lines (N, 3, 48, W), float32 on the CPU."""
        _, input_name, features_name, file = self._state
        lines = x.detach().to("cpu", torch.float32).contiguous().numpy()
        try:
            (features,) = self._session.run([features_name], {input_name: lines})
        except Exception as error:
            raise WeightsError(
                f"{file} cannot be used as a network: it does not take pictures of size {tuple(x.shape)}: "
                f"{_first_line(error)}."
            ) from error
        return torch.from_numpy(features)


class OnnxLineRecognizer(CtcLineRecognizer):
    """A recogniser of text lines from an ONNX file; created by `load_line_recognizer`.

    The last layer, which computes the scores of characters, is a PyTorch layer. It can be moved to a device, converted
    to another type, and trained. onnxruntime runs all other layers on the CPU, and training does not change them.

    Args:
        network: A function that computes features (N, T, width) from images of lines, (N, 3, 48, W).
        head: The last layer, which computes the scores of the classes from these features. Class 0 is the blank.
        characters: The characters of the classes from class 1 on, in order.
        step_pixels: Width in pixels of the part of a line that each of the T steps covers.
        right_to_left: Whether the network is for a right-to-left script. If so, it returns characters in visual order,
            from left to right.

    Example:
        >>> from mediatensor.ocr.models import find_weights, load_line_recognizer
        >>> model = load_line_recognizer(find_weights("ppocr_v6_small_reco"))
        >>> len(model.characters), model.step_pixels
        (18709, 8)
    """

    def __init__(
        self,
        network: Callable[[Tensor], Tensor],
        head: nn.Linear,
        characters: Sequence[str],
        step_pixels: int,
        right_to_left: bool,
    ) -> None:
        super().__init__()
        self.network, self.head = network, head
        self.step_pixels, self.right_to_left = step_pixels, right_to_left
        self.cfg = {
            "mean": (0.5, 0.5, 0.5),
            "std": (0.5, 0.5, 0.5),
            "input_shape": (3, HEIGHT, TRIED_WIDTHS[0]),
            "color_order": "BGR",
            "text_unit": "line",
        }
        self.set_vocab(characters)

    @not_compiled
    def features(self, x: Tensor) -> Tensor:
        """Return the features that the last layer takes: (N, T, C) for T steps along each line, on the device of ``x``.

        Args:
            x: Images of text lines, (N, 3, 48, W), with channels in the order BGR, normalised with the mean and std in
                ``cfg``.

        Raises:
            InvalidArgumentError: The model is to be exported (``exportable`` is true), which is not possible.
            WeightsError: The network does not accept lines of this size.
        """
        if self.exportable:
            raise InvalidArgumentError("A recogniser from an ONNX file cannot be exported: copy that file.")
        return self.network(x).to(x.device, self.head.weight.dtype)

    def best_of_steps(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Find the most probable class of each step in the result of `features`, like `CtcLineRecognizer`.

        Probabilities that are NaN, which damaged weights can cause, are replaced with 0.
        """
        probabilities, classes, spaces = super().best_of_steps(features)
        return probabilities.nan_to_num(0.0), classes, spaces.nan_to_num(0.0)


def load_line_recognizer(
    path: str | os.PathLike[str],
    dictionary: str | os.PathLike[str] | list[str] | tuple[str, ...] | None = None,
    *,
    vocab: str | None = None,
    right_to_left: bool | None = None,
) -> OnnxLineRecognizer:
    """Load a recogniser of text lines from an ONNX file, such as RapidOCR's PP-OCRv5 models.

    Load only files that you trust: onnxruntime runs the network without limits on memory or time. The network must be
    like those of PP-OCRv3 to v6: its input is 48 pixels high and of any width, and its output is CTC scores of
    characters.

    Args:
        path: The path of the ONNX file, for example ``cyrillic_PP-OCRv5_rec_mobile.onnx``. URLs are rejected.
        dictionary: The characters of the classes, as a list, or as the path of a text file with one character on each
            line. By default, the list in the ONNX file is used. If the ONNX file contains no list, a text file in the
            same folder is used: one with the ONNX file's name and the ending ``.txt`` or ``_dict.txt``, or else the
            only ``.txt`` file.
        vocab: The characters that the model may return; by default all in the dictionary.
        right_to_left: Whether the script is read from right to left. By default, this is true if the dictionary
            contains letters of right-to-left scripts, such as Arabic or Hebrew.

    Returns:
        The model, to be used as ``ocr_predictor(script_readers={"Cyrillic": model})`` or
        ``ocr_predictor(reco_arch=model)``.

    Raises:
        InvalidArgumentError: ``vocab``, ``right_to_left`` or an entry of the dictionary has the wrong type.
        MissingDependencyError: onnxruntime is not installed.
        WeightsNotFoundError: There is no such file.
        WeightsError: The file is damaged or contains another kind of network, or the dictionary is missing or has the
            wrong length.

    Example:
        >>> from mediatensor.ocr.models import find_weights, load_line_recognizer
        >>> load_line_recognizer(find_weights("ppocr_v6_small_reco"), vocab="0123456789").vocab
        '0123456789'
    """
    if not (vocab is None or isinstance(vocab, str)):
        raise InvalidArgumentError(f"vocab={vocab!r}: give a string of the characters that may be read.")
    if not (right_to_left is None or isinstance(right_to_left, bool)):
        raise InvalidArgumentError(f"right_to_left={right_to_left!r}: give True, False or None.")
    file = check_file(path)
    if file.stat().st_size > LARGEST_FILE:
        raise WeightsError(f"{file} has more than {LARGEST_FILE} bytes: it is not a recogniser of lines.")
    graph = read_onnx(file)
    if len(graph.inputs) != 1:
        raise WeightsError(
            f"{file} is not a recogniser of lines: its inputs are {', '.join(graph.inputs) or 'missing'}."
        )
    features_name, head = _last_linear(graph, file)
    network = FeatureSession(add_output(file.read_bytes(), features_name), graph.inputs[0], features_name, file)
    num_steps = [_num_steps(network, head, file, width) for width in TRIED_WIDTHS]
    step_pixels = TRIED_WIDTHS[0] // max(num_steps[0], 1)
    if not step_pixels or num_steps != [width // step_pixels for width in TRIED_WIDTHS]:
        raise WeightsError(
            f"{file} is not a recogniser of lines: for {TRIED_WIDTHS} columns it gives {tuple(num_steps)} steps."
        )
    if isinstance(dictionary, (list, tuple)):
        if not all(isinstance(character, str) and character for character in dictionary):
            raise InvalidArgumentError("dictionary has entries that are no text: give one character for each class.")
        characters, source = list(dictionary), "the list that was given"
    else:
        characters, source = _find_dictionary(file, dictionary, graph.metadata.get("character"))
    characters = _fit_to_classes(characters, head.out_features, file, source)
    if right_to_left is None:
        right_to_left = sum(map(is_right_to_left, characters)) >= RIGHT_TO_LEFT_LETTERS
    model = OnnxLineRecognizer(network, head, characters, step_pixels, right_to_left)
    if vocab is not None:
        model.restrict_vocab(vocab)
    return model.eval()


def _last_linear(graph: OnnxGraph, file: Path) -> tuple[str, nn.Linear]:
    """Return the input's name of the last linear layer of a graph, and this layer, without a softmax after it."""
    maker = {node.output: node for node in graph.nodes}
    node = maker.get(graph.outputs[0]) if len(graph.outputs) == 1 else None
    if node is not None and node.op == "Softmax":
        node = maker.get(node.inputs[0])
    bias = None
    if node is not None and node.op == "Add":
        constants = [graph.tensors[name] for name in node.inputs if name in graph.tensors]
        made = [maker[name] for name in node.inputs if name in maker]
        bias, node = (constants[0], made[0]) if (len(constants), len(made)) == (1, 1) else (None, None)
    weight = graph.tensors.get(node.inputs[-1]) if node is not None and node.op == "MatMul" else None
    if node is None or weight is None or weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[1:]):
        raise WeightsError(
            f"{file} is not a recogniser of lines: it does not end in a linear layer of classes, as those with CTC do."
        )
    values = np.asarray(weight, np.float32).T, np.zeros(weight.shape[1]) if bias is None else bias
    tensors = [torch.tensor(np.ascontiguousarray(value, np.float32)) for value in values]
    if not all(tensor.isfinite().all() for tensor in tensors):
        raise WeightsError(f"{file} is not a recogniser of lines: a weight of its last layer is not finite.")
    layer = nn.Linear(weight.shape[0], weight.shape[1], device="meta")
    layer.weight, layer.bias = map(nn.Parameter, tensors)
    return node.inputs[0], layer


def _num_steps(network: FeatureSession, head: nn.Linear, file: Path, width: int) -> int:
    size = tuple(network(torch.zeros(2, 3, HEIGHT, width, device="cpu")).shape)
    if len(size) != 3 or size[0] != 2 or size[2] != head.in_features:
        raise WeightsError(
            f"{file} is not a recogniser of lines: for 2 pictures it gives {size}, not (2, steps, {head.in_features})."
        )
    return size[1]


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _find_dictionary(file: Path, dictionary: str | os.PathLike[str] | None, own: str | None) -> tuple[list[str], str]:
    if dictionary is not None:
        name = path_text("dictionary", dictionary)
        if not is_file(name):
            raise WeightsError(f"There is no dictionary {name}: give a text file with one character on each line.")
        return _lines_of(Path(name)), name
    if own is not None:
        if len(own) > LARGEST_DICTIONARY:
            raise WeightsError(f"{file} is not a recogniser of lines: its list of characters is {len(own)} long.")
        return own.removesuffix("\n").split("\n"), "the file"
    beside = [file.with_name(f"{file.stem}{ending}.txt") for ending in ("", "_dict")]
    found = [candidate for candidate in beside if candidate.is_file()][:1] or [
        candidate for candidate in sorted(file.parent.glob("*.txt")) if candidate.is_file()
    ]
    if len(found) != 1:
        raise WeightsError(
            f"{file} has no dictionary: it lists no characters, and beside it there is neither {beside[0].name} nor "
            f"{beside[1].name} nor a single other .txt file. Give the path of its dictionary, one character on each "
            "line."
        )
    return _lines_of(found[0]), str(found[0])


def _lines_of(file: Path) -> list[str]:
    if file.stat().st_size > LARGEST_DICTIONARY:
        raise WeightsError(f"{file} is too large for a dictionary, which has one character on each line.")
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WeightsError(f"{file} is not a dictionary: it is not text in UTF-8 ({error}).") from error
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _fit_to_classes(characters: list[str], num_classes: int, file: Path, source: str) -> list[str]:
    """Return the character of each class except class 0, the blank, from the characters in a dictionary.

    Dictionaries are not all alike: some omit the space, which is the last class, and some list the blank as well.
    """
    missing = num_classes - 1 - len(characters)
    if missing == 1:
        return [*characters, " "]
    if missing == 0:
        return characters
    if missing == -1 and characters[0] in ("blank", "<blank>", "[blank]"):
        return characters[1:]
    raise WeightsError(
        f"{source} lists {len(characters)} characters, and the network of {file} has {num_classes} classes: a blank, "
        f"{num_classes - 2} characters and a space. Give the dictionary that belongs to it."
    )


def readers_by_script(
    readers: Mapping[str, str | os.PathLike[str] | nn.Module | None] | None, recogniser: nn.Module
) -> dict[str, CtcLineRecognizer]:
    """Load the recognisers for the scripts that the main recogniser cannot read, and return them by script.

    Args:
        readers: A model or the path of a file for each script, or ``None`` to leave a script unread. The recogniser in
            `SCRIPT_FILE` reads its scripts if ``readers`` does not name them. Each file is loaded only once.
        recogniser: The main recogniser, which reads all other lines, and detects scripts that it cannot read. If it
            does not detect scripts, there are no readers.
    """
    given = {} if readers is None else readers
    if not isinstance(given, Mapping) or not all(isinstance(script, str) for script in given):
        raise InvalidArgumentError(f"script_readers={shown(readers)}: give a dict of readers by the name of a script.")
    classifier = getattr(uncompiled_module(recogniser), "script_classifier", None)
    if classifier is None:
        if not given:
            return {}
        raise InvalidArgumentError(
            "script_readers need the default recogniser with its published weights and all of its characters, which "
            "finds scripts: give pretrained=True, and no vocab. To read everything by one model, give it as reco_arch."
        )
    known = sorted(name for name in classifier.names if name)
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise InvalidArgumentError(f"script_readers for {', '.join(unknown)}: scripts are {', '.join(known)}.")
    found = {} if given.keys() >= _LETTERS.keys() else built_in_readers()
    loaded: dict[str, nn.Module] = {}
    for script, reader in given.items():
        if reader is None:
            found.pop(script, None)
            continue
        if not isinstance(reader, nn.Module):
            name = path_text(f"the reader for {script}", reader)
            if name not in loaded:
                is_trained = is_checkpoint(name)
                loaded[name] = load_checkpoint(name, "recognition") if is_trained else load_line_recognizer(name)
            reader = loaded[name]
        if not isinstance(uncompiled_module(reader), CtcLineRecognizer):
            raise InvalidArgumentError(
                f"the reader for {script} is a {type(reader).__name__}: give a recogniser of lines, such as one that "
                "fit has trained or that load_line_recognizer returns, or the path of its file."
            )
        found[script] = cast(CtcLineRecognizer, reader.eval())
    return found


def leave_out_of_state(predictor: nn.Module) -> None:
    """Leave the parameters of ``predictor.script_readers`` out of the state dict of a predictor.

    Readers are loaded from their own files. A predictor without readers can therefore load the state of one with them.
    """
    predictor.register_state_dict_post_hook(_remove_readers)  # type: ignore[no-untyped-call]
    predictor.register_load_state_dict_post_hook(_expect_no_readers)  # type: ignore[no-untyped-call]


def _remove_readers(predictor: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    for name in [name for name in state if name.startswith(f"{prefix}script_readers.")]:
        del state[name]


def _expect_no_readers(predictor: nn.Module, incompatible: Any) -> None:
    missing = incompatible.missing_keys
    missing[:] = [name for name in missing if "script_readers." not in name]


def built_in_readers(path: Path = SCRIPT_FILE) -> dict[str, CtcLineRecognizer]:
    """Load the recogniser in `SCRIPT_FILE`, or in a file that replaces it, and return a reader for each of its scripts.

    The readers share all layers except the last. Apart from unaccented Latin letters, the last layer of a reader has
    the letters of only one script, because many letters of different scripts look the same.
    """
    if path == SCRIPT_FILE:
        compare_checksum(check_file(SCRIPT_FILE), SCRIPT_FILE_SHA256)
    model = cast(CtcLineRecognizer, load_checkpoint(path, "recognition"))
    others = [character for character in model.characters if not character.isalpha() or character.isascii()]
    readers = {}
    for script, ranges in _LETTERS.items():
        own = [c for c in model.characters if c.isalpha() and any(low <= ord(c) < high for low, high in ranges)]
        readers[script] = model.with_vocab([*others, *own])
    return readers
