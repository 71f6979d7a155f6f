"""Compare fused convolutions, and pages and lines on threads, with the slow ways on a CPU."""

from __future__ import annotations

import copy
import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from forked import run_program
from mediatensor.errors import PageError
from mediatensor.ocr.io import DocumentFile
from mediatensor.ocr.models._networks.blocks import convolve, multiply
from mediatensor.ocr.models._networks.transfers import spread
from ocr_reading import geometries, reader, text_page, words_of


@contextmanager
def num_threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def drawn_pages() -> list[np.ndarray]:
    return [
        text_page("One line only, 12.50").image,
        text_page("Second 2", "Third 3,00 and more", "4 x 5 = 20").image,
    ]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("layer", "size"),
    [
        (nn.Conv2d(6, 8, 1), (3, 10)),
        (nn.Conv2d(6, 8, 1, bias=False), (1, 1)),
        (nn.Conv2d(6, 6, 3, (2, 1), 1, groups=6), (7, 9)),
        (nn.Conv2d(6, 4, 2), (5, 6)),
        (nn.Conv2d(6, 12, 3, 2, 1), (24, 40)),
    ],
)
def test_fused_convolution_equals_the_layers(layer: nn.Conv2d, size: tuple[int, int], threads: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 6, *size).contiguous(memory_format=torch.channels_last)
    plain = layer(x).double()
    expected = {
        "none": plain,
        "relu": plain.clamp(min=0),
        "gelu": plain * (1 + torch.erf(plain / 2**0.5)) / 2,
        "swish": plain / (1 + torch.exp(-plain)),
    }
    other = torch.randn(plain.shape).contiguous(memory_format=torch.channels_last)
    with num_threads(threads), torch.inference_mode():
        for name, values in expected.items():
            torch.testing.assert_close(convolve(layer, x, name).double(), values, rtol=1e-4, atol=1e-5)  # type: ignore[arg-type]
        torch.testing.assert_close(convolve(layer, x, added=other), plain.float() + other, rtol=1e-4, atol=1e-5)


def test_fused_convolution_in_bfloat16_rounds_once() -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(16, 8, 1).to(torch.bfloat16)
    x, other = torch.randn(2, 16, 7, 9).to(torch.bfloat16), torch.randn(2, 8, 7, 9).to(torch.bfloat16)
    with torch.inference_mode():
        exact = copy.deepcopy(layer).double()(x.double())
        found = {"relu": convolve(layer, x, "relu"), "added": convolve(layer, x, added=other)}
    # A number has 8 significant bits; a sum of two rounded numbers can be off by the rounding of the larger.
    torch.testing.assert_close(found["relu"].double(), exact.clamp(min=0), rtol=2**-7, atol=2**-7)
    torch.testing.assert_close(found["added"].double(), exact + other.double(), rtol=2**-7, atol=2**-5)


def test_gradients_and_hooks_use_the_layers() -> None:
    layer, x = nn.Conv2d(4, 4, 1), torch.randn(1, 4, 5, 5)
    convolve(layer, x, "gelu").sum().backward()
    assert layer.weight.grad is not None
    seen: list[Any] = []
    layer.register_forward_hook(lambda *arguments: seen.append(arguments))
    with torch.inference_mode():
        convolve(layer, x)
        assert len(seen) == 1


def test_fused_product_equals_linear() -> None:
    torch.manual_seed(0)
    rows, weight, bias = torch.randn(50, 24), torch.randn(301, 24), torch.randn(301)
    bias[7] = -torch.inf  # a class that is not to be read
    with torch.inference_mode():
        product = multiply(rows, weight, bias)
        assert (product[:, 7] == -torch.inf).all()
        assert multiply(rows[:0], weight, None).shape == (0, 301)
    expected = (rows.double() @ weight.double().T + bias.double()).float()
    torch.testing.assert_close(product, expected, rtol=1e-4, atol=1e-4)


PRIVATE_OPERATORS = """
import os
import types
import torch
from torch import nn
from mediatensor.ocr.models._networks.blocks import convolve, multiply

def change(name, is_missing):
    real = getattr(torch.ops.mkldnn, name)
    def wrong(*arguments):
        return real(*arguments) + 1
    wrong.binary = lambda *arguments: real.binary(*arguments) + 1
    names = ("_linear_pointwise", "_convolution_pointwise")
    operators = {each: getattr(torch.ops.mkldnn, each) for each in names} | {name: wrong}
    if is_missing:
        del operators[name]
    torch.ops = types.SimpleNamespace(mkldnn=types.SimpleNamespace(**operators), aten=torch.ops.aten)

def check():
    layer, x, added = nn.Conv2d(3, 5, 1), torch.randn(2, 3, 4, 4), torch.randn(2, 5, 4, 4)
    assert torch.equal(convolve(layer, x), layer(x))
    assert torch.equal(convolve(layer, x, "swish"), nn.functional.silu(layer(x)))
    assert torch.equal(convolve(layer, x, added=added), layer(x) + added)
    rows, weight, bias = torch.randn(7, 3), torch.randn(5, 3), torch.randn(5)
    assert torch.equal(multiply(rows, weight, bias), nn.functional.linear(rows, weight, bias))

for name in ("_linear_pointwise", "_convolution_pointwise"):
    for is_missing in (False, True):
        child = os.fork()  # the operators are looked at once in a process
        if child == 0:
            change(name, is_missing)
            with torch.inference_mode():
                check()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, (name, is_missing)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_layers_are_called_where_private_operators_of_pytorch_have_changed() -> None:
    run = run_program(PRIVATE_OPERATORS)
    assert run.returncode == 0, run.stderr


def test_spread_keeps_the_order_and_gives_each_thread_its_share() -> None:
    both, numbers = threading.Barrier(2, timeout=60), list(range(9))

    def work(number: int) -> tuple[int, int, bool, bool]:
        if number < 2:
            both.wait()  # breaks unless two work at the same time
        own = threading.current_thread() is not threading.main_thread()
        return number, torch.get_num_threads(), torch.is_inference_mode_enabled(), own

    with num_threads(4):
        assert list(spread(work, numbers, 2)) == [(number, 2, True, True) for number in numbers]
        assert torch.get_num_threads() == 4
        new = threading.Thread(target=lambda: numbers.append(torch.get_num_threads()))
        new.start()
        new.join()
        assert numbers[-1] == 4, "a thread that is new to PyTorch begins with the caller's number"


def test_spread_takes_few_items_ahead_and_passes_errors_on() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    with num_threads(2):
        results = spread(lambda number: 1 / (number - 3), items(), 2)
        assert next(results) == -1 / 3
        assert len(taken) <= 6
        assert [next(results), next(results)] == [-1 / 2, -1]
        with pytest.raises(ZeroDivisionError):
            next(results)
        assert torch.get_num_threads() == 2


def same_words(document: Any, expected: Any) -> None:
    found, known = words_of(document), words_of(expected)
    assert [word.value for word in found] == [word.value for word in known]
    assert len(known) > 10
    np.testing.assert_allclose(geometries(found), geometries(known), atol=2e-3)
    np.testing.assert_allclose([w.confidence for w in found], [w.confidence for w in known], atol=2e-3)


def test_every_quick_way_reads_the_words_of_the_slow_one() -> None:
    predictor, pages = reader(), drawn_pages()
    # The slow way has one thread and ordinary layers without oneDNN.
    with num_threads(1), torch.backends.mkldnn.flags(enabled=False):
        slow = predictor(pages)
    with num_threads(1):
        same_words(predictor(pages), slow)  # fused
    with num_threads(2):
        same_words(predictor(pages), slow)  # a page on each thread
        alone = predictor(pages[:1]).pages[0]  # lines on threads
        assert alone.render() == slow.pages[0].render()
    with num_threads(6):
        same_words(predictor(pages), slow)  # pages on threads, and their lines on more threads


def test_lines_of_one_page_are_seen_on_several_threads() -> None:
    predictor = reader()
    seen: list[threading.Thread] = []
    handle = predictor.reco_predictor.model.norm.register_forward_hook(
        lambda *_: seen.append(threading.current_thread())
    )
    try:
        with num_threads(2):
            predictor([text_page().image])
    finally:
        handle.remove()
    assert seen
    assert threading.main_thread() not in seen


def test_unreadable_pages_keep_their_order_with_threads() -> None:
    file = io.BytesIO()
    Image.fromarray(text_page().image).save(file, "PNG")
    whole = file.getvalue()
    pages = DocumentFile.from_images([whole, whole[: len(whole) // 2], whole])
    expected = reader()([text_page().image]).render()
    with num_threads(2), pytest.warns(UserWarning, match="page 1 is left empty"):
        document = reader()(pages)
    assert [page.error is None for page in document.pages] == [True, False, True]
    assert [page.render() for page in document.pages] == [expected, "", expected]
    with num_threads(2), pytest.raises(PageError):
        reader(on_error="raise")(pages)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("mediatensor-ocr")]


def test_a_convolution_that_a_user_replaced_is_called() -> None:
    class Twice(nn.Conv2d):
        def forward(self, input: Tensor) -> Tensor:
            return 2 * super().forward(input)

    layer, x = Twice(3, 3, 1), torch.randn(1, 3, 4, 4)
    with torch.inference_mode():
        torch.testing.assert_close(convolve(layer, x), layer(x))
