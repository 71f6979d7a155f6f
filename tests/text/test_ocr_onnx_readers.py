"""Test line recognisers from ONNX files of others, and compare them with onnxruntime."""

from __future__ import annotations

import copy
import os
import pickle
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from lazy_modules import import_on_use
from mediatensor.errors import InvalidArgumentError, MissingDependencyError, WeightsError, WeightsNotFoundError
from mediatensor.ocr.models import find_weights, load_line_recognizer, recognition_predictor
from mediatensor.ocr.models.utils import export_model_to_onnx
from ocr_onnx_sessions import line_network, published_recogniser, require_weights

onnx = import_on_use("onnx", reason="makes the files that are read here")
onnxruntime = import_on_use("onnxruntime", reason="runs them")

WIDTH = 8
CYRILLIC = [*map(chr, range(0x430, 0x437)), *"0123", "🇺🇦"]

LETTERS = "".join(CYRILLIC[:3])


def weights(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return generator.normal(0, 0.5, shape).astype(np.float32)


def line_model(
    characters: Sequence[str], *, always: int | None = None, extra: Sequence[Any] = (), metadata: bool = False
) -> Any:
    """A small recogniser of lines, made of the operators of PP-OCRv3 to v5.

    Args:
        characters: Those of its dictionary; its classes are a blank, these, and a space.
        always: The class that it sees everywhere.
        extra: Nodes that come first, from "x" to "y".
        metadata: Whether the file lists the characters.
    """
    generator = np.random.default_rng(0)
    num_classes = len(characters) + 2
    head = weights(generator, WIDTH, num_classes)
    bias = weights(generator, num_classes)
    if always is not None:
        head, bias = np.zeros_like(head), np.zeros_like(bias)
        bias[always] = 20
    arrays = {
        "w0": weights(generator, WIDTH, 3, 3, 3),
        "b0": weights(generator, 1, WIDTH, 1, 1),
        "gamma": weights(generator, WIDTH),
        "beta": weights(generator, WIDTH),
        "mean": weights(generator, WIDTH),
        "variance": np.abs(weights(generator, WIDTH)) + 0.1,
        "scale": np.array([1.5], np.float32),
        "w1": weights(generator, WIDTH, 1, 3, 3),
        "b1": weights(generator, WIDTH),
        "w2": weights(generator, WIDTH, WIDTH, 1, 1),
        "w3": weights(generator, WIDTH, WIDTH, 2, 2),
        "two": np.array(2.0, np.float32),
        "epsilon": np.array(1e-5, np.float32),
        "norm": weights(generator, WIDTH),
        "shape": np.array([0, -1, 2, WIDTH // 2], np.int64),
        "flat": np.array([0, -1, WIDTH], np.int64),
        "root2": np.array(1.4142135, np.float32),
        "one": np.array(1.0, np.float32),
        "half": np.array(0.5, np.float32),
        "first": np.array([0], np.int64),
        "second": np.array([1], np.int64),
        "axis": np.array([2], np.int64),
        "width": np.array([WIDTH], np.int64),
        "rest": np.array([-1], np.int64),
        "head": head,
        "bias": bias,
    }
    node = onnx.helper.make_node
    start = "y" if extra else "x"
    nodes = [
        *extra,
        node("Conv", [start, "w0"], ["c0"], strides=[2, 2], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        node("Add", ["c0", "b0"], ["c1"]),
        node("Mul", ["c1", "scale"], ["c2"]),
        node("HardSwish", ["c2"], ["c3"]),
        node("Conv", ["c3", "w1", "b1"], ["d0"], group=WIDTH, strides=[2, 2], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        node("BatchNormalization", ["d0", "gamma", "beta", "mean", "variance"], ["d1"], epsilon=1e-3),
        node("GlobalAveragePool", ["d1"], ["s0"]),
        node("Conv", ["s0", "w2"], ["s1"], kernel_shape=[1, 1]),
        node("HardSigmoid", ["s1"], ["s2"], alpha=0.2, beta=0.5),
        node("Mul", ["d1", "s2"], ["d2"]),
        node("Conv", ["d2", "w3"], ["d3"], auto_pad="SAME_UPPER", kernel_shape=[2, 2], strides=[1, 1]),
        node("MaxPool", ["d3"], ["d4"], auto_pad="SAME_UPPER", kernel_shape=[2, 2], strides=[1, 1]),
        node("Relu", ["d4"], ["d5"]),
        node("AveragePool", ["d5"], ["d6"], kernel_shape=[12, 2], strides=[12, 2]),
        node("Squeeze", ["d6", "axis"], ["e0"]),
        node("Transpose", ["e0"], ["e1"], perm=[0, 2, 1]),
        # Layer normalization as basic operations.
        node("ReduceMean", ["e1"], ["n0"], axes=[-1]),
        node("Sub", ["e1", "n0"], ["n1"]),
        node("Pow", ["n1", "two"], ["n2"]),
        node("ReduceMean", ["n2"], ["n3"], axes=[-1]),
        node("Add", ["n3", "epsilon"], ["n4"]),
        node("Sqrt", ["n4"], ["n5"]),
        node("Div", ["n1", "n5"], ["n6"]),
        node("Mul", ["n6", "norm"], ["n7"]),
        # Attention with two heads, whose sizes are computed from the size of the image.
        node("Shape", ["n7"], ["z0"]),
        node("Slice", ["z0", "first", "second"], ["z1"]),
        node("Concat", ["z1", "rest", "width"], ["z2"], axis=0),
        node("Reshape", ["n7", "shape"], ["a0"]),
        node("Transpose", ["a0"], ["a1"], perm=[0, 2, 1, 3]),
        node("Transpose", ["a0"], ["a2"], perm=[0, 2, 3, 1]),
        node("MatMul", ["a1", "a2"], ["a3"]),
        node("Softmax", ["a3"], ["a4"], axis=-1),
        node("MatMul", ["a4", "a1"], ["a5"]),
        node("Transpose", ["a5"], ["a6"], perm=[0, 2, 1, 3]),
        node("Reshape", ["a6", "z2"], ["a7"]),
        # GELU by the error function.
        node("Div", ["a7", "root2"], ["g0"]),
        node("Erf", ["g0"], ["g1"]),
        node("Add", ["g1", "one"], ["g2"]),
        node("Mul", ["a7", "g2"], ["g3"]),
        node("Mul", ["g3", "half"], ["g4"]),
        node("Identity", ["g4"], ["g5"]),
        node("MatMul", ["g5", "head"], ["h0"]),
        node("Add", ["h0", "bias"], ["h1"]),
        node("Softmax", ["h1"], ["out"], axis=-1),
    ]
    return line_network(nodes, arrays, num_classes, characters if metadata else None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cyrillic_rec.onnx"
    onnx.save(line_model(CYRILLIC, metadata=True), path)
    return path


def by_onnxruntime(path: Path, lines: torch.Tensor) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: lines.numpy()})[0]


def assert_same(path: Path, model: Any, lines: torch.Tensor) -> None:
    expected = by_onnxruntime(path, lines)
    with torch.inference_mode():
        found = model(lines, return_model_output=True)["out_map"].softmax(-1).numpy()
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 1e-4
    assert (found.argmax(-1) == expected.argmax(-1)).all()


@pytest.mark.parametrize("size", [(1, 3, 48, 320), (3, 3, 48, 104)])
def test_runs_as_onnxruntime_runs_it(file: Path, size: tuple[int, ...]) -> None:
    lines = torch.rand(size, generator=torch.Generator().manual_seed(1)) * 2 - 1
    assert_same(file, load_line_recognizer(file), lines)


def test_published_recogniser_equals_onnxruntime_and_its_module() -> None:
    require_weights()
    path = find_weights("ppocr_v6_small_reco")
    model, own = load_line_recognizer(path), published_recogniser()
    assert model.characters == own.characters
    lines = torch.rand(2, 3, 48, 200, generator=torch.Generator().manual_seed(1)) * 2 - 1
    assert_same(path, model, lines)
    picture = drawn("Delivery note 2048")
    (found,), (expected,) = recognition_predictor(model)([picture]), recognition_predictor(own)([picture])
    assert found[0] == expected[0] == "Delivery note 2048"
    assert found[1] == pytest.approx(expected[1], abs=1e-4)


def drawn(text: str) -> np.ndarray:
    from matplotlib import font_manager

    picture = Image.new("RGB", (24 * len(text) + 40, 60), "white")
    ImageDraw.Draw(picture).text((20, 10), text, "black", ImageFont.truetype(font_manager.findfont("DejaVu Sans"), 32))
    return np.asarray(picture)


def test_onnx_reader_is_an_ordinary_module(file: Path, tmp_path: Path) -> None:
    model = load_line_recognizer(file)
    lines = torch.rand(2, 3, 48, 160)
    with torch.inference_mode():
        expected = model(lines, return_model_output=True)["out_map"]
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert torch.equal(other(lines, return_model_output=True)["out_map"], expected)
    fresh = load_line_recognizer(file)
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.zero_()
    fresh.load_state_dict(model.state_dict())
    with torch.inference_mode():
        assert torch.equal(fresh(lines, return_model_output=True)["out_map"], expected)
        half = copy.deepcopy(model).to(torch.bfloat16)
        assert half(lines.to(torch.bfloat16), return_model_output=True)["out_map"].dtype == torch.bfloat16
    assert all(parameter.is_meta for parameter in copy.deepcopy(model).to("meta").parameters())


def test_onnx_reader_works_with_threads_and_compilers(file: Path) -> None:
    model = load_line_recognizer(file)
    lines = [torch.rand(2, 3, 48, width, generator=torch.Generator().manual_seed(width)) for width in (64, 160, 320)]

    def logits(network: Any, batch: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return network(batch, return_model_output=True)["out_map"]

    expected = [logits(model, batch) for batch in lines]
    with ThreadPoolExecutor(3) as pool:
        assert all(map(torch.equal, pool.map(lambda batch: logits(model, batch), lines), expected))
    compiled = copy.deepcopy(model)
    compiled.compile(backend="eager")
    for batch, own in zip(lines, expected, strict=True):
        torch.testing.assert_close(logits(compiled, batch), own, atol=1e-5, rtol=1e-4)


def test_onnx_reader_learns(file: Path, training_seed: int) -> None:
    torch.manual_seed(training_seed)
    model = load_line_recognizer(file).train()
    before = copy.deepcopy(model.state_dict())
    lines, texts = torch.rand(2, 3, 48, 160), [f"{LETTERS} 01", LETTERS[::-1]]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)  # of the last layer
    losses = []
    for _ in range(5):
        loss = model(lines, target=texts)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert all(not torch.equal(value, before[name]) for name, value in model.state_dict().items() if value.numel() > 8)


def test_vocab_leaves_the_other_characters_out(file: Path) -> None:
    model = load_line_recognizer(file, vocab=LETTERS)
    assert model.vocab == LETTERS
    lines = torch.rand(4, 3, 48, 320)
    with torch.inference_mode():
        full = load_line_recognizer(file)(lines, return_model_output=True)["out_map"]
        kept = model(lines, return_model_output=True)["out_map"]
    torch.testing.assert_close(kept, full[..., :4], atol=1e-5, rtol=1e-4)


def test_a_class_of_several_code_points_is_read(tmp_path: Path) -> None:
    path = tmp_path / "flag.onnx"
    onnx.save(line_model(CYRILLIC, always=len(CYRILLIC), metadata=True), path)
    ((text, confidence),) = recognition_predictor(load_line_recognizer(path))([drawn("flag")])
    assert text == "🇺🇦"
    assert confidence > 0.9


class TestDictionary:
    def path(self, folder: Path) -> Path:
        onnx.save(line_model(CYRILLIC), folder / "cyrillic_rec.onnx")
        return folder / "cyrillic_rec.onnx"

    @pytest.mark.parametrize("name", ["cyrillic_rec.txt", "cyrillic_rec_dict.txt", "ppocrv5_cyrillic_dict.txt"])
    @pytest.mark.parametrize("end", ["", "\n", "\r\n"])
    def test_dictionary_next_to_the_file_is_found(self, tmp_path: Path, name: str, end: str) -> None:
        path = self.path(tmp_path)
        (tmp_path / name).write_bytes((end or "\n").join(CYRILLIC).encode() + end.encode())
        assert load_line_recognizer(path).characters == (*CYRILLIC, " ")

    def test_dictionary_can_be_given(self, tmp_path: Path) -> None:
        path = self.path(tmp_path)
        (tmp_path / "a.txt").write_text("\n".join(CYRILLIC), encoding="utf-8")
        (tmp_path / "b.txt").write_text("another one", encoding="utf-8")
        expected = (*CYRILLIC, " ")
        assert load_line_recognizer(path, tmp_path / "a.txt").characters == expected
        assert load_line_recognizer(str(path), CYRILLIC).characters == expected
        assert load_line_recognizer(path, [*CYRILLIC, " "]).characters == expected
        assert load_line_recognizer(path, ["blank", *CYRILLIC, " "]).characters == expected
        with pytest.raises(WeightsError, match=r"neither cyrillic_rec\.txt nor cyrillic_rec_dict\.txt nor a single"):
            load_line_recognizer(path)

    def test_dictionary_of_another_length_is_rejected(self, tmp_path: Path) -> None:
        with pytest.raises(WeightsError, match=r"lists 3 characters.*has 14 classes: a blank, 12 characters"):
            load_line_recognizer(self.path(tmp_path), ["a", "b", "c"])

    def test_missing_or_binary_dictionary_is_rejected(self, tmp_path: Path) -> None:
        path = self.path(tmp_path)
        with pytest.raises(WeightsError, match="no dictionary"):
            load_line_recognizer(path)
        with pytest.raises(WeightsError, match=r"There is no dictionary .*gone\.txt"):
            load_line_recognizer(path, tmp_path / "gone.txt")
        (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(WeightsError, match="not text in UTF-8"):
            load_line_recognizer(path, tmp_path / "bytes.txt")

    def test_arabic_dictionary_sets_right_to_left(self, tmp_path: Path) -> None:
        arabic = [chr(0x627 + index) for index in range(26)]
        onnx.save(line_model(arabic, metadata=True), tmp_path / "arabic.onnx")
        assert load_line_recognizer(tmp_path / "arabic.onnx").right_to_left
        assert not load_line_recognizer(tmp_path / "arabic.onnx", right_to_left=False).right_to_left


class TestOtherFiles:
    """Damaged and foreign files are refused."""

    def refused(self, model: Any, path: Path, match: str) -> None:
        onnx.save(model, path)
        with pytest.raises(WeightsError, match=match):
            load_line_recognizer(path)

    def test_missing_and_foreign_files_raise(self, tmp_path: Path) -> None:
        with pytest.raises(WeightsNotFoundError, match=r"gone\.onnx"):
            load_line_recognizer(tmp_path / "gone.onnx")
        with pytest.raises(WeightsNotFoundError):
            load_line_recognizer("a" * 5000)
        with pytest.raises(InvalidArgumentError, match="nothing is downloaded"):
            load_line_recognizer("https://example.org/cyrillic.onnx")
        (tmp_path / "text.onnx").write_text("no network", encoding="utf-8")
        with pytest.raises(WeightsError, match="not a readable ONNX file"):
            load_line_recognizer(tmp_path / "text.onnx")

    def test_unknown_operators_are_named(self, tmp_path: Path) -> None:
        extra = [onnx.helper.make_node("Nonsense", ["x"], ["y"])]
        model = line_model(CYRILLIC, extra=extra, metadata=True)
        self.refused(model, tmp_path / "a.onnx", r"a\.onnx cannot be used as a network: .*Nonsense")

    def test_networks_that_do_not_take_lines_are_refused(self, tmp_path: Path) -> None:
        extra = [onnx.helper.make_node("Concat", ["x", "x"], ["y"], axis=1)]
        self.refused(line_model(CYRILLIC, extra=extra, metadata=True), tmp_path / "a.onnx", r"cannot be used.*Conv")

    def test_other_networks_are_refused(self, tmp_path: Path) -> None:
        helper = onnx.helper
        value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 48, 320])
        out = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "other", [value], [out])
        self.refused(helper.make_model(graph), tmp_path / "a.onnx", "is not a recogniser of lines")

    def test_data_elsewhere_is_refused(self, tmp_path: Path) -> None:
        model = line_model(CYRILLIC, metadata=True)
        onnx.save(model, tmp_path / "a.onnx", save_as_external_data=True, location="passwd", size_threshold=0)
        with pytest.raises(WeightsError, match="in another file"):
            load_line_recognizer(tmp_path / "a.onnx")

    def test_non_finite_weights_are_rejected(self, tmp_path: Path) -> None:
        model = line_model(CYRILLIC, metadata=True)
        (initializer,) = (tensor for tensor in model.graph.initializer if tensor.name == "head")
        array = onnx.numpy_helper.to_array(initializer).copy()
        array[0, 0] = np.nan
        initializer.CopyFrom(onnx.numpy_helper.from_array(array, "head"))
        self.refused(model, tmp_path / "a.onnx", "not finite")

    def test_damaged_files_are_refused_or_read(self, file: Path, tmp_path: Path) -> None:
        whole = file.read_bytes()
        generator = np.random.default_rng(3)
        broken = tmp_path / "broken.onnx"
        num_refused = 0
        for trial in range(150):
            data = bytearray(whole)
            if trial % 3 == 0:
                data = data[: int(generator.integers(len(whole)))]
            else:
                for place in generator.integers(len(whole), size=int(generator.integers(1, 20))):
                    data[place] = int(generator.integers(256))
            broken.write_bytes(data)
            try:
                model = load_line_recognizer(broken)
                with torch.inference_mode():
                    model(torch.zeros(1, 3, 48, 64), return_steps=True)
            except WeightsError:
                num_refused += 1
        assert num_refused > 30


def test_special_files_next_to_a_network_are_not_dictionaries(tmp_path: Path) -> None:
    path = tmp_path / "lines.onnx"
    onnx.save(line_model(CYRILLIC), path)
    (tmp_path / "folder.txt").mkdir()
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "zeros.txt").symlink_to("/dev/zero")
    with pytest.raises(WeightsError, match="has no dictionary"):
        load_line_recognizer(path)
    with pytest.raises(WeightsError, match="There is no dictionary"):
        load_line_recognizer(path, tmp_path / ("a" * 5000))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"dictionary": [1, 2]}, "dictionary"),
        ({"dictionary": ["a", ""]}, "dictionary"),
        ({"vocab": 5}, "vocab=5"),
        ({"right_to_left": "x"}, "right_to_left='x'"),
    ],
)
def test_arguments_of_other_types_raise(tmp_path: Path, arguments: dict[str, Any], named: str) -> None:
    path = tmp_path / "lines.onnx"
    onnx.save(line_model(CYRILLIC), path)
    with pytest.raises(InvalidArgumentError, match=named):
        load_line_recognizer(path, **arguments)


def test_without_onnxruntime_the_extra_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "mediatensor\[onnx\]"'):
        load_line_recognizer(file)


def test_further_characters_are_learned(file: Path) -> None:
    model = load_line_recognizer(file)
    lines = torch.rand(2, 3, 48, 160)
    with torch.inference_mode():
        before = model(lines, return_model_output=True)["out_map"]
        model.extend_vocab("xy")
        after = model(lines, return_model_output=True)["out_map"]
    assert model.characters == (*CYRILLIC, " ", "x", "y")
    torch.testing.assert_close(after[..., :-2], before)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_onnx_reader_cannot_be_exported(file: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="copy that file"):
        export_model_to_onnx(load_line_recognizer(file), str(tmp_path / "again"), torch.zeros(1, 3, 48, 320))
