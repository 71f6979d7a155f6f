"""Frames are those of a plain decode in its order, in every container that PyAV writes, with every codec that it takes.

The order of a plain decode is the one in which its codec gives the frames. Files that state wrong times are what these
tests are for, and a reference that is sorted by time would hide them.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import zlib
from collections import Counter
from contextlib import suppress
from pathlib import Path

import av
import numpy as np
import pytest
from torch import Tensor

from media_grid import STRUCTURES, Cell, containers, encoders, structures_of, write_cell
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import MediaTensorError, StreamError
from oracles import undetermined_frames, upright_frames

os.environ.setdefault("SVT_LOG", "0")  # the AV1 encoder prints otherwise

# Cells that must be in the grid, or it tests too little.
_CERTAIN = {
    "asf": {"libx264", "mpeg4", "wmv2"},
    "avi": {"libx264", "mpeg1video", "mpeg2video", "mpeg4", "mjpeg", "ffv1"},
    "flv": {"libx264", "flv"},
    "matroska": {"libx264", "libx265", "libvpx-vp9", "mpeg4", "mpeg2video", "ffv1"},
    "mov": {"libx264", "libx265", "prores_ks", "mpeg4"},
    "mp4": {"libx264", "libx265", "libsvtav1", "mpeg4", "mpeg2video"},
    "mpeg": {"mpeg1video", "mpeg2video"},
    "mpegts": {"libx264", "libx265", "mpeg2video"},
    "mxf": {"libx264", "mpeg2video"},
    "nut": {"libx264", "mpeg4", "snow"},
    "webm": {"libvpx", "libvpx-vp9", "libsvtav1"},
    "wtv": {"libx264", "mpeg4", "mpeg2video"},
}


def checksum(rgb: Tensor) -> int:
    return zlib.crc32(np.ascontiguousarray(rgb.numpy()))


def find_fault(path: Path, *, is_garbled: bool = False) -> str | None:
    """Return the fault in the frames of a file; ``None`` if they equal a plain decode in its output order.

    Args:
        path: The file.
        is_garbled: Its demuxer makes up packets, which shows when they are decoded: the decoder may do so first.

    Raises:
        StreamError: if a plain decode gives no frame.
    """
    try:
        plain = [zlib.crc32(rgb) for _, rgb in upright_frames(path)]
    except (av.FFmpegError, AttributeError):  # no file that can be opened, no video in it
        plain = []
    if not plain:
        raise StreamError("no frame")
    last = len(plain) - 1
    chance = random.Random(path.name)
    try:
        for number in () if is_garbled else {0, last, last // 2, chance.randint(0, last)}:
            with VideoDecoder(path, dimension_order="NHWC", num_ffmpeg_threads=1) as decoder:
                if checksum(decoder[number]) != plain[number]:
                    return f"frame {number} is another, if it is the first that is asked for"
        with VideoDecoder(path, dimension_order="NHWC", num_ffmpeg_threads=1) as decoder:
            if is_garbled:
                with suppress(MediaTensorError):
                    decoder.get_all_frames()
            if len(decoder) != len(plain):
                return f"{len(decoder)} frames, a plain decode gives {len(plain)}"
            shuffled = chance.sample(range(len(plain)), len(plain))
            data = decoder.get_frames_at(shuffled).data
            wrong = {number for number, rgb in zip(shuffled, data, strict=True) if checksum(rgb) != plain[number]}
            if is_garbled:
                wrong -= undetermined_frames(path)
            if wrong:
                return f"frames {sorted(wrong)} differ"
            times = decoder.frame_index.pts_seconds.tolist()
            return None if times == sorted(times) else "times fall"
    except MediaTensorError as error:
        return f"{type(error).__name__}: {error}"


def sample_of_encoders(container: str) -> list[str]:
    """Return all encoders for the container that takes most, else a sixteenth and those that must be readable."""
    certain = _CERTAIN.get(container, set())
    return [
        encoder
        for encoder in encoders()
        if container == "matroska" or encoder in certain or zlib.crc32(f"{container} {encoder}".encode()) % 16 == 0
    ]


def check_container(container: str, folder: Path, *, is_whole: bool) -> Counter[str]:
    """Check one container with every encoder, and count the cells by their result."""
    ends: Counter[str] = Counter()
    faults = {}
    taken = set()
    for encoder in encoders() if is_whole else sample_of_encoders(container):
        # The last of these that differs is the riskiest.
        among = STRUCTURES if is_whole else ("plain", "b_frames", "open_gop")
        structures = list(structures_of(encoder, among))
        for structure in structures if is_whole else structures[-1:]:
            cell = Cell(container, encoder, structure)
            path = folder / f"{cell}.{cell.extension}"
            if not write_cell(cell, path):
                ends["not written"] += 1
                if structure == "plain":
                    break
                continue
            try:
                fault = find_fault(path, is_garbled=container == "nut" and structure.startswith("joined"))
            except StreamError:
                ends["not read back by FFmpeg"] += 1
                if structure == "plain":
                    break
                continue
            finally:
                path.unlink(missing_ok=True)
            ends["checked"] += 1
            taken.add(encoder)
            if fault is not None:
                faults[str(cell)] = fault
    assert not faults, "\n".join(f"{cell}: {fault}" for cell, fault in faults.items())
    assert taken >= _CERTAIN.get(container, set()), "a readable cell is missing"
    return ends


@pytest.mark.parametrize("container", containers())
def test_containers_give_codecs_in_their_order(
    container: str, tmp_path: Path, record_property: pytest.RecordProperty
) -> None:
    record_property("cells", dict(check_container(container, tmp_path, is_whole=False)))


@pytest.mark.slow
@pytest.mark.parametrize("container", containers())
def test_every_container_gives_every_structure_of_every_codec_in_its_order(
    container: str, tmp_path: Path, record_property: pytest.RecordProperty
) -> None:
    record_property("cells", dict(check_container(container, tmp_path, is_whole=True)))


if __name__ == "__main__":  # the whole grid in words: python tests/media/test_exactness_grid.py [container ...]
    with tempfile.TemporaryDirectory() as place:
        for name in sys.argv[1:] or containers():
            counts = check_container(name, Path(place), is_whole=True)
            print(f"{name:16}", ", ".join(f"{count} {end}" for end, count in counts.items()), flush=True)
