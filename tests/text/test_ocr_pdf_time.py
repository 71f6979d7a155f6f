"""PDFium in a separate process: the same pages, and a time limit for endless ones."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pdf_files
from isolated_work import size_of_page
from mediatensor.cli import main
from mediatensor.datasets import DataLoader, DocumentPages
from mediatensor.distributed import TextReader
from mediatensor.errors import InvalidArgumentError, OpenError, PageError
from mediatensor.isolate import IsolatedWorker
from mediatensor.ocr.io import Pages, read_pdf

# Private: users do not see which process draws, and whether it is ended.
from mediatensor.ocr.io._documents import pdf as _pdf
from places import in_child, interrupted, needs_fork
from processes import wait_until_gone

pytest.importorskip("pypdfium2", reason="needs pypdfium2")

GOOD = pdf_files.document(
    [pdf_files.text_page((72, 400, "hello page one")), pdf_files.text_page((72, 500, "second"))], entries="/Rotate 90"
)


def marked() -> bytes:
    """A page whose content begins a million marked parts within each other."""
    return pdf_files.document([b"/A BMC " * 1_000_000, b"0 g 0 0 612 792 re f"])


@pytest.fixture(autouse=True)
def no_process_is_left() -> Any:
    yield
    if _pdf._process is not None:
        _pdf._process.close()


HOSTILE: dict[str, Callable[[], bytes]] = {"tiling": pdf_files.endless, "marked": marked}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_page_without_end_fails_and_the_others_are_read(name: str) -> None:
    pages = read_pdf(HOSTILE[name](), timeout_seconds=0.5)

    assert len(pages) == 2
    for _ in range(2):
        with pytest.raises(PageError, match=r"Page 0 \(counted from 0\) of .* timeout_seconds = 0\.5"):
            pages[0]
        assert pages[1].shape == read_pdf(HOSTILE[name]())[1].shape


def test_text_layers_without_end_fail() -> None:
    pages = read_pdf(marked(), timeout_seconds=0.5)

    with pytest.raises(PageError, match=r"Page 0 .* timeout_seconds = 0\.5"):
        pages.text_layer(0)
    assert pages.text_layer(1) == []


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dpi": 37},
        {"rgb_mode": False, "grayscale": True},
        {"rotation": 270, "crop": (10, 20, 30, 40)},
        {"fill_color": (255, 0, 0, 100), "maybe_alpha": True},
        {"max_pixels": 100},
    ],
)
@pytest.mark.parametrize("is_seen", [True, False])
def test_separate_process_gives_the_same_pages_and_words(
    options: dict[str, Any], is_seen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pdf, "_SHARED_BYTES", (64 << 20) if is_seen else 4096)
    path = tmp_path / "good.pdf"
    path.write_bytes(GOOD)
    expected = read_pdf(GOOD, **options)
    for source in (path, GOOD):
        pages = read_pdf(source, timeout_seconds=60, **options)
        kept = []
        for number in range(len(expected)):
            if "max_pixels" in options:
                with pytest.raises(PageError, match="more than max_pixels = 100"):
                    pages[number]
                continue
            kept.append(pages[number])
            words = [(word.value, word.geometry) for word in pages.text_layer(number)]
            assert words == [(word.value, word.geometry) for word in expected.text_layer(number)]
        # A page does not change when the next one is drawn.
        assert all(np.array_equal(page, expected[number]) for number, page in enumerate(kept))


def test_more_documents_than_stay_open_are_read() -> None:
    documents = [read_pdf(pdf_files.document([b""], box=f"0 0 {k} 7"), timeout_seconds=60) for k in range(20, 27)]

    for _ in range(2):
        assert [pages[0].shape[1] for pages in documents] == [2 * k for k in range(20, 27)]
    del documents[::2]
    gc.collect()
    assert [pages[0].shape[1] for pages in documents] == [2 * k for k in (21, 23, 25)]


def test_unreadable_files_raise_their_reason(tmp_path: Path) -> None:
    locked = pdf_files.encrypted(pdf_files.text_page((72, 400, "hidden")), b"secret")
    with pytest.raises(OpenError, match="encrypted; pass password="):
        read_pdf(locked, timeout_seconds=60)
    assert len(read_pdf(locked, password="secret", timeout_seconds=60)) == 1
    with pytest.raises(OpenError, match="damaged or has no pages"):
        read_pdf(b"%PDF-1.7\n", timeout_seconds=60)
    path = tmp_path / "gone.pdf"
    path.write_bytes(GOOD)
    pages = read_pdf(path, timeout_seconds=60)
    _pdf._running().close()
    path.unlink()
    with pytest.raises(PageError, match=r"Page 0 .* No such file"):
        pages[0]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc for the loaded libraries of a process")
def test_the_process_loads_neither_torch_nor_numpy() -> None:
    """It would start in seconds instead of a fifth of a second."""
    assert np.array_equal(read_pdf(GOOD, timeout_seconds=60)[0], read_pdf(GOOD)[0])
    loaded = Path(f"/proc/{_pdf._running()._process.pid}/maps").read_text()
    assert "pdfium" in loaded
    assert "torch" not in loaded
    assert "numpy" not in loaded


def test_a_process_that_crashes_is_replaced() -> None:
    pages = read_pdf(GOOD, timeout_seconds=60)
    process = _pdf._running()
    os.kill(process._process.pid, signal.SIGKILL)

    with suppress(PageError):  # its end may be noticed before the next page is asked for, or by that
        pages[0]
    assert np.array_equal(pages[0], read_pdf(GOOD)[0])


@pytest.mark.parametrize(
    "value", [0, -1, float("nan"), float("inf"), "10", True, np.zeros(2)], ids=lambda value: str(value)
)
def test_invalid_limits_are_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="timeout_seconds"):
        read_pdf(GOOD, timeout_seconds=value)


def test_unpicklable_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="timeout_seconds=None"):
        read_pdf(GOOD, timeout_seconds=5, bitmap_maker=lambda *arguments, **options: None)


# Where it is used


def test_datasets_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mediatensor.ocr.io._documents.pdf.DEFAULT_TIMEOUT_SECONDS", 0.5)
    (tmp_path / "tiling.pdf").write_bytes(pdf_files.endless())
    for options, limit in ({}, r"0\.5"), ({"timeout_seconds": 0.25}, r"0\.25"):
        rows = DocumentPages([tmp_path / "tiling.pdf"], pdf_options=options)
        with pytest.raises(PageError, match=f"timeout_seconds = {limit}"):
            rows[0]
    assert len(rows) == 2
    assert rows[1].image.shape == (3, 158, 122)  # type: ignore[union-attr]

    reader = TextReader(make_predictor=lambda: None, pdf_options={"timeout_seconds": 0.25})
    result = reader({"path": [str(tmp_path / "tiling.pdf")], "page": [0]})
    assert "timeout_seconds = 0.25" in result["error"][0]


def test_the_command_has_a_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tiling.pdf").write_bytes(pdf_files.endless())

    assert (
        main(["ocr", str(tmp_path / "tiling.pdf"), "-o", str(tmp_path), "--pages", "1", "--page-timeout", "0.5"]) == 2
    )
    assert "--page-timeout 0.5" in capsys.readouterr().err


# Processes, forks, interrupts


@needs_fork
def test_forked_processes_have_a_separate_pdf_process(tmp_path: Path) -> None:
    pages = read_pdf(GOOD, timeout_seconds=60)
    expected = pages[0]
    own = _pdf._running()._process.pid

    def other() -> tuple[bytes, int]:
        return pages[0].tobytes(), _pdf._running()._process.pid

    data, process = in_child(tmp_path, other)
    assert data == expected.tobytes()
    assert process != own
    assert np.array_equal(pages[0], expected)
    assert _pdf._running()._process.pid == own


def _sum_of(pages: Pages, queue: Any) -> None:
    queue.put(int(pages[0].sum(dtype=np.int64)))


def test_daemons_and_pickled_pages_work() -> None:
    pages = read_pdf(GOOD, timeout_seconds=60)
    expected = int(pages[0].sum(dtype=np.int64))
    assert int(pickle.loads(pickle.dumps(pages))[0].sum(dtype=np.int64)) == expected
    if "fork" in multiprocessing.get_all_start_methods():
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        daemon = context.Process(target=_sum_of, args=(pages, queue), daemon=True)
        daemon.start()
        assert queue.get(timeout=60) == expected
        daemon.join(60)


def test_loader_workers_read_pages(tmp_path: Path) -> None:
    (tmp_path / "good.pdf").write_bytes(GOOD)
    rows = DocumentPages([tmp_path / "good.pdf"] * 2)
    expected = read_pdf(GOOD)

    loader = DataLoader(rows, 1, num_workers=2, collate_fn=list)
    samples = [sample for batch in loader for sample in batch]
    assert len(samples) == 4
    for sample in samples:
        assert torch.equal(sample.image, expected.tensor(sample.extra["page_index"]))


@pytest.mark.usefixtures("forked_processes")
def test_isolated_worker_reads_pages(tmp_path: Path) -> None:
    (tmp_path / "good.pdf").write_bytes(GOOD)
    (tmp_path / "tiling.pdf").write_bytes(pdf_files.endless())
    with IsolatedWorker(timeout_seconds=60) as worker:
        for _ in range(2):
            assert worker.run(size_of_page, tmp_path / "good.pdf", 60.0) == read_pdf(GOOD)[0].shape
            with pytest.raises(PageError, match=r"timeout_seconds = 0\.25"):
                worker.run(size_of_page, tmp_path / "tiling.pdf", 0.25)


@needs_fork
def test_interrupt_ends_the_pdf_process(tmp_path: Path) -> None:
    noted = tmp_path / "process"

    def work(may_be_interrupted: Callable[[], object]) -> None:
        pages = read_pdf(pdf_files.endless(), timeout_seconds=60)
        noted.write_text(str(_pdf._running()._process.pid))
        may_be_interrupted()
        pages[0]

    interrupted(tmp_path, work, 0.3)
    wait_until_gone(int(noted.read_text()))
