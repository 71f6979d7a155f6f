"""Test compiled predictors: they read the same words, and do not compile for every page.

The backend only counts, so that no compiler is needed; torch asks it whenever it has captured a graph for shapes that
none of its graphs serves.
"""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

import ocr_small_networks
from mediatensor.ocr.models import crop_orientation_predictor, detection_predictor, ocr_predictor, recognition_predictor
from mediatensor.ocr.models.predictor import OCRPredictor
from ocr_pages import render_text
from ocr_reading import reader, words_of

LINES = (
    "Invoice 2041 of the firm",
    "Total due: 1,250.00 EUR",
    "Thank you very much!",
    "Yes",
    "A much longer line of text that goes on and on",
    "7",
    "Order 12",
    "Street name 55, Zurich",
)


VOCAB = "".join(sorted(set("".join(LINES))))
"""Fewer characters make the graphs smaller."""


class CountingBackend:
    """A compiler that runs graphs unchanged, and counts the graphs and their runs."""

    def __init__(self) -> None:
        self.graphs = 0
        self.runs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1

        def run(*arguments: Any) -> Any:
            self.runs += 1
            return graph.forward(*arguments)

        return run


@pytest.fixture
def backend() -> Iterator[CountingBackend]:
    torch.compiler.reset()
    yield CountingBackend()
    torch.compiler.reset()


@cache
def pages() -> tuple[NDArray[np.uint8], ...]:
    """Return twelve pages of different sizes, with one to seven lines of different lengths."""
    chosen = [np.random.default_rng(number).permutation(len(LINES))[: 1 + number % 7] for number in range(12)]
    return tuple(
        render_text([LINES[index] for index in order], dpi=100, font_size=12 + number % 4, margin=20 + 5 * number).image
        for number, order in enumerate(chosen)
    )


def summary(document: Any) -> list[tuple[str, float]]:
    return [(word.value, word.confidence) for word in words_of(document)]


@cache
def plainly_read(number: int) -> list[tuple[str, Any]]:
    """Read a page without a compiler; compilers change the order of arithmetic."""
    read = summary(reader(vocab=VOCAB, shorter_side=480)([pages()[number]]))
    return [(text, pytest.approx(confidence, abs=2e-4)) for text, confidence in read]


def graphs_by_page(predictor: Any, backend: CountingBackend, numbers: Iterable[int]) -> list[int]:
    """Return the number of new graphs for each page. Words and confidences must equal those without a compiler."""
    counts = []
    for number in numbers:
        before = backend.graphs
        assert summary(predictor([pages()[number]])) == plainly_read(number)
        counts.append(backend.graphs - before)
    return counts


@pytest.mark.slow
def test_pages_of_all_sizes_share_graphs(backend: CountingBackend) -> None:
    assert len({page.shape for page in pages()}) == len(pages())
    predictor = copy.deepcopy(reader(vocab=VOCAB, shorter_side=480))
    predictor.det_predictor.compile(backend=backend)
    assert graphs_by_page(predictor, backend, (0, 1, 3)) == [1, 0, 0]
    assert backend.runs == 3
    # The detector is compiled already.
    assert predictor.compile(backend=backend) is None
    counts = graphs_by_page(predictor, backend, range(9))
    # On a CPU, small inputs use other convolutions, so there are up to four graphs of the recogniser.
    assert 0 < sum(counts) <= 5
    assert sum(counts[6:]) == 0
    # Each page runs the detector and the recogniser at least once.
    assert backend.runs >= 3 + 2 * 9
    assert sum(graphs_by_page(predictor, backend, (0, 3))) == 0

    # The way of docTR's users, with the existing graphs.
    wrapped = copy.deepcopy(reader(vocab=VOCAB, shorter_side=480))
    wrapped.det_predictor.model = torch.compile(wrapped.det_predictor.model, backend=backend)
    wrapped.reco_predictor.model = torch.compile(wrapped.reco_predictor.model, backend=backend)
    runs = backend.runs
    assert sum(graphs_by_page(wrapped, backend, (0, 1))) == 0
    assert backend.runs >= runs + 2 * 2


@pytest.mark.slow
def test_copies_of_a_compiled_predictor_read(backend: CountingBackend) -> None:
    predictor = ocr_predictor(pretrained=True, shorter_side=192)
    predictor.compile(backend=backend)
    assert list(predictor.state_dict()) == list(reader().state_dict())
    page = pages()[0]
    for other in (copy.deepcopy(predictor), pickle.loads(pickle.dumps(predictor))):
        assert summary(other([page])) == summary(reader()([page]))
    assert backend.graphs == 0, "a copy is not compiled"


def crops(count: int) -> list[NDArray[np.uint8]]:
    generator = np.random.default_rng(count)
    return [generator.integers(0, 256, (20 + k, 30 + 11 * k, 3), dtype=np.uint8) for k in range(count)]


COUNTS = (3, 2, 1, 5, 4, 1, 8)
"""Batch sizes. Another size above 1 needs no new graph."""


def graphs_of(predictor: Any, backend: CountingBackend) -> list[int]:
    """Return the number of new graphs for each batch size. Check the results against those without a compiler."""
    expected = [predictor(crops(count)) for count in COUNTS]
    predictor.compile(backend=backend)
    counts = []
    for count, result in zip(COUNTS, expected, strict=True):
        before = backend.graphs
        assert str(predictor(crops(count))) == str(result)
        counts.append(backend.graphs - before)
    return counts


def test_classifiers_have_a_graph_for_one_crop_and_one_for_several(backend: CountingBackend) -> None:
    predictor = crop_orientation_predictor()
    predictor.model.blocks = nn.Conv2d(8, 32, 3, 4)  # fewer layers to capture
    assert graphs_of(predictor, backend) == [1, 0, 1] + [0] * (len(COUNTS) - 3)


@pytest.mark.slow
def test_detectors_of_words_have_a_graph_for_one_page_and_one_for_several(backend: CountingBackend) -> None:
    torch.manual_seed(0)
    predictor = detection_predictor("fast_tiny", batch_size=4)
    predictor.pre_processor.resize.size = (64, 64)
    assert graphs_of(predictor, backend) == [1, 0, 1] + [0] * (len(COUNTS) - 3)


SMALL = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "input_shape": (3, 16, 64), "vocab": ocr_small_networks.VOCAB}


def print_graphs_of(name: str) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    backend = CountingBackend()
    predictor = recognition_predictor(getattr(ocr_small_networks, name)(cfg=SMALL), batch_size=4)
    print(*graphs_of(predictor, backend), backend.runs, flush=True)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
def test_recognisers_of_words_that_write_share_graphs() -> None:
    """Use a separate process for each network, because the number of graphs depends on earlier captures."""
    own = Path(__file__).parent
    program = (
        f"import os, sys; sys.path[:0] = {[str(own), str(own.parent / 'shared')]!r}; import test_ocr_compiled\n"
        "for name in ('small_parseq', 'small_master'):\n"
        "    if os.fork() == 0:\n"
        "        test_ocr_compiled.print_graphs_of(name)\n"
        "        os._exit(0)\n"
        "    assert os.wait()[1] == 0, name\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=250)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        *counts, num_runs = map(int, line.split())
        # The first steps are captured separately, until the compiler treats their number as dynamic.
        assert 3 <= sum(counts[:3]) <= 18
        assert sum(counts[3:]) == 0
        assert num_runs >= len(counts)


class Features(nn.Module):
    """A module defined outside of torch, because torch's own modules are not captured alone."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layer(images).relu()


@pytest.mark.slow
def test_recognisers_of_words_have_a_graph_for_one_crop_and_one_for_several(backend: CountingBackend) -> None:
    torch.manual_seed(0)
    model = ocr_small_networks.small_crnn(cfg=SMALL)
    model.feat_extractor = Features(model.feat_extractor)
    predictor = recognition_predictor(model, batch_size=4)
    assert graphs_of(predictor, backend) == [1, 0, 1] + [0] * (len(COUNTS) - 3)


def test_networks_that_find_the_structure_are_compiled(backend: CountingBackend) -> None:
    # Classifiers stand in for the networks that find regions and cells.
    layout, tables = crop_orientation_predictor(), crop_orientation_predictor()
    predictor = OCRPredictor(
        copy.deepcopy(reader().det_predictor),
        recognition_predictor(ocr_small_networks.small_crnn(cfg=SMALL)),
        layout_predictor=layout,
        table_predictor=tables,
    )
    predictor.compile(backend=backend)
    assert layout.model._compiled_call_impl is not None
    assert tables.model._compiled_call_impl is not None


def test_compiling_twice_is_compiling_once(backend: CountingBackend) -> None:
    predictor = crop_orientation_predictor()
    predictor.compile(backend=backend)
    first = predictor.model._compiled_call_impl
    predictor.compile(backend="eager")
    assert predictor.model._compiled_call_impl is first
    model = torch.compile(crop_orientation_predictor().model, backend=backend)
    wrapped = crop_orientation_predictor(model)
    wrapped.compile(backend="eager")
    assert wrapped.model is model
    assert model._compiled_call_impl is None
    assert model._orig_mod._compiled_call_impl is None
