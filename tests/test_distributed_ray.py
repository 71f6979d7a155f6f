"""`mediatensor.distributed` on a real cluster of Ray, which the tests start on this machine."""

from __future__ import annotations

import os
import shutil
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
from mediatensor.datasets import VideoClips
from mediatensor.distributed import ClipDecoder, TextReader, clip_rows
from training_set import SIZE, make_videos

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'mediatensor[ray]'")
pytest.importorskip("ray.data", reason="needs Ray Data: pip install 'mediatensor[ray]'")

# One cluster serves them all, where test processes run side by side with --dist loadgroup.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240), pytest.mark.xdist_group("ray")]

NUM_FILES, NUM_DISTINCT = 200, 20
BROKEN = (3, 40, 77, 120, 199)
CLIP_SHAPE = (4, 3, *SIZE)
SEED = 5


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray on the loopback interface, with two CPUs and a small store; it leaves nothing behind."""
    # Paths of sockets must be short, shorter than pytest's own folders.
    folder = tempfile.mkdtemp(prefix="ray")
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
            yield
        finally:
            ray.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """200 files of 20 different contents, five of them cut short."""
    folder = tmp_path_factory.mktemp("files")
    contents = make_videos(folder / "contents", NUM_DISTINCT)
    paths = [folder / f"{number:03}.mp4" for number in range(NUM_FILES)]
    for number, path in enumerate(paths):
        if number in BROKEN:
            path.write_bytes(contents[0].read_bytes()[:500])
        else:
            os.link(contents[number % NUM_DISTINCT], path)
    return [str(path) for path in paths]


@pytest.fixture(scope="module")
def expected(files: list[str]) -> dict[int, NDArray[np.uint8]]:
    """The clips of the good rows, as a dataset in this process gives them."""
    rows = VideoClips(files, num_frames_per_clip=CLIP_SHAPE[0], seed=SEED)
    return {i: rows[i].frames.data.numpy() for i in range(NUM_FILES) if i not in BROKEN}  # type: ignore[union-attr]


def decoded(
    mapper: type[ClipDecoder], files: list[str], *, num_actors: int, num_cpus: float, **options: Any
) -> list[dict[str, Any]]:
    """All rows, as they come from a pool of actors."""
    dataset = ray.data.from_items(clip_rows(files, file_number=range(len(files))), override_num_blocks=10)
    options = {"num_frames_per_clip": CLIP_SHAPE[0], "clip_shape": CLIP_SHAPE, "seed": SEED, **options}
    mapped = dataset.map_batches(
        mapper,
        fn_constructor_kwargs=options,
        batch_size=8,
        num_cpus=num_cpus,
        compute=ray.data.ActorPoolStrategy(size=num_actors),
    )
    rows: list[dict[str, Any]] = mapped.take_all()
    return rows


def check_rows(rows: list[dict[str, Any]], files: list[str], expected: dict[int, NDArray[np.uint8]]) -> None:
    """Every row once; the good ones with the right bits, the broken ones named."""
    assert sorted(row["row"] for row in rows) == list(range(NUM_FILES))
    for row in rows:
        number = row["row"]
        assert (row["source"], row["file_number"], row["n_replaced"]) == (files[number], number, 0)
        assert row["frames"].shape == CLIP_SHAPE
        assert row["frames"].dtype == np.uint8
        assert row["pts_seconds"].dtype == np.float64
        if number in BROKEN:
            assert files[number] in row["error"]
            assert not row["frames"].any()
            assert np.isnan(row["pts_seconds"]).all()
        else:
            assert row["error"] == ""
            assert np.array_equal(row["frames"], expected[number])


def watched(folder: Path, num_actors: int, *, dies_with_row: int | None = None) -> type[ClipDecoder]:
    """A mapper that says by which process and how many threads rows are decoded, and that may die once."""

    class Watched(ClipDecoder):  # travels to the actors with its code, as it is no member of a module
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
            for name, value in (
                ("process", os.getpid()),
                ("threads", mediatensor.get_num_threads()),
                ("torch_threads", torch.get_num_threads()),
            ):
                columns[name] = np.full(len(columns["row"]), value)
            return columns

    return Watched


def test_every_row_comes_once_and_broken_ones_are_named(
    cluster: None, files: list[str], expected: dict[int, NDArray[np.uint8]], tmp_path: Path
) -> None:
    rows = decoded(watched(tmp_path, 1), files, num_actors=1, num_cpus=2)
    check_rows(rows, files, expected)
    assert {(row["threads"], row["torch_threads"]) for row in rows} == {(2, 2)}
    (process,) = {row["process"] for row in rows}
    assert process != os.getpid()


def test_one_of_two_actors_is_killed_and_replaced_and_no_row_is_lost(
    cluster: None, files: list[str], expected: dict[int, NDArray[np.uint8]], tmp_path: Path
) -> None:
    rows = decoded(watched(tmp_path, 2, dies_with_row=100), files, num_actors=2, num_cpus=1)
    check_rows(rows, files, expected)
    assert {(row["threads"], row["torch_threads"]) for row in rows} == {(1, 1)}
    processes = {row["process"] for row in rows}
    assert os.getpid() not in processes
    assert len(processes) >= 2
    assert int((tmp_path / "deaths").read_text()) not in {row["process"] for row in rows if row["row"] == 100}


def test_columns_without_a_common_shape_keep_their_type_where_everything_is_broken(
    cluster: None, files: list[str], expected: dict[int, NDArray[np.uint8]]
) -> None:
    some = [files[number] for number in (*BROKEN[:3], 0, 1, 2)]
    dataset = ray.data.from_items(clip_rows(some), override_num_blocks=2)  # the first block has broken rows only
    clips = dataset.map_batches(ClipDecoder(num_frames_per_clip=4, seed=SEED), batch_size=3).materialize()
    assert [row["frames"].shape for row in sorted(clips.take_all(), key=itemgetter("row"))] == [(0, 0, 0, 0)] * 3 + [
        CLIP_SHAPE
    ] * 3
    good = clips.filter(lambda row: not row["error"]).take_all()
    assert sorted(row["source"] for row in good) == files[:3]
    assert all(row["frames"].dtype == np.uint8 and row["pts_seconds"].shape == (4,) for row in good)


def test_words_come_back_as_lists_also_where_there_are_none(cluster: None, tmp_path: Path) -> None:
    from PIL import Image

    class Word:
        value, confidence, geometry = "word", 0.5, ((0.0, 0.25), (0.5, 0.75))

    class Holder:
        def __init__(self, **parts: Any) -> None:
            self.__dict__.update(parts)

        def render(self) -> str:
            return "word" if self.blocks else ""  # type: ignore[attr-defined]

    def read(pages: list[NDArray[np.uint8]]) -> Any:
        """A word on a white page, none on others."""
        line = Holder(words=[Word()])
        return Holder(
            pages=[Holder(error=None, blocks=[Holder(lines=[line])] if page.min() == 255 else []) for page in pages]
        )

    paths = [tmp_path / f"{number}.png" for number in range(4)]
    for number, path in enumerate(paths):
        Image.new("L", (8, 8), 255 if number >= 2 else 0).save(path)
    dataset = ray.data.from_items(clip_rows(paths), override_num_blocks=2)
    reader = TextReader(make_predictor=lambda: read)
    rows = sorted(dataset.map_batches(reader, batch_size=2).take_all(), key=itemgetter("row"))
    assert [(list(row["words"]), row["text"], row["boxes"].tolist(), row["error"]) for row in rows] == [
        *[([], "", [], "")] * 2,
        *[(["word"], "word", [[0.0, 0.25, 0.5, 0.75]], "")] * 2,
    ]
