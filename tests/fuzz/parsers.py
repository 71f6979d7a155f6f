"""The parsers that are functions of bytes, each as a function that must return, whatever bytes it is given.

Intended exceptions of a parser are caught here; anything else is a defect. `test_parsers` runs them on random bytes,
`coverage_guided` with atheris.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from mediatensor._engine.audio.pre_roll import OpusMemory
from mediatensor._engine.bitstreams.content import (
    break_detector,
    content_parser,
    disposable_parser,
    has_valid_start,
    nal_units_are_valid,
    packet_inspector,
    refreshes_gradually,
    slices_are_intact,
)
from mediatensor._engine.bitstreams.h264 import H264Parser
from mediatensor._engine.bitstreams.units import HEAD_BYTES
from mediatensor._engine.containers.audio_frames import (
    VorbisModes,
    constant_frames,
    find_frame,
    first_packet_end,
    has_stated_size,
    vorbis_modes,
)
from mediatensor._engine.containers.boxes import MalformedBoxError, read_box, top_level_boxes
from mediatensor._engine.containers.joined_files import (
    FrameWalk,
    begins_file,
    flac_seconds,
    id3_end,
    ogg_links,
    time_restarts,
    wavpack_parts,
)
from mediatensor._engine.containers.matroska import blocks_of_track
from mediatensor._engine.containers.sample_tables import (
    expected_packets,
    find_track,
    packets_of_fragments,
    read_samples,
)
from mediatensor._engine.containers.truncated_files import breaks_off, stated_audio_seconds
from mediatensor._engine.containers.wav import parse_wav_header
from mediatensor._engine.images.formats import DamagedImageError, read_jpeg_headers, webp_canvas
from mediatensor._engine.images.png_gif import parse_gif, parse_png
from mediatensor._engine.index.building import parse_frame_mappings
from mediatensor._engine.pyav.stated_colours import CODECS_OF_SEQUENCES, sequence_parser
from mediatensor.datasets._sources.parquet_pages import Chunk, UnknownPagesError, data_pages, values_of_page
from mediatensor.datasets._sources.tar_format import TarReader
from mediatensor.decoders import FrameIndex
from mediatensor.decoders._subtitle_decoder import parse_text
from mediatensor.errors import MediaTensorError
from mediatensor.ocr.io import Document
from mediatensor.ocr.io._documents.images import is_tiff, page_offsets
from mediatensor.ocr.models._networks.onnx import read_onnx

from .corpus import seed_file, seed_names

__all__ = ["PARSERS", "seeds_of"]

_UNITS = ("h264", "hevc", "av1", "dirac", "mpeg2video", "mpeg4", "vp8", "vp9")
_SUBTITLES = ("subrip", "webvtt", "ass", "mov_text", "text")


def _read_at(data: bytes) -> Callable[[int, int], bytes]:
    return lambda offset, size: data[offset : offset + size]


def sample_tables(data: bytes) -> None:
    """Boxes, tracks, tables of samples, and fragments."""
    read_at = _read_at(data)
    with suppress(MalformedBoxError):
        boxes = list(top_level_boxes(read_at, len(data)))
        fragments = [box for box in boxes if box.kind == b"moof"]
        for box in boxes:
            if box.kind == b"moov":
                header = read_box(read_at, box)
                track = find_track(header, 1)
                with suppress(MalformedBoxError):
                    expected_packets(track, read_samples(track, len(data)), 0)
                packets_of_fragments(track, 1, header, fragments, read_at, len(data))


def matroska_blocks(data: bytes) -> None:
    """Clusters, blocks and laces; no frame may lie outside the file, and no byte may be read often."""
    num_read = 0

    def read_at(position: int, size: int) -> bytes:
        nonlocal num_read
        found = data[position : position + size]
        num_read += len(found)
        return found

    for track_index in (0, 1):
        for window_bytes in (64, 1 << 13):
            num_read = 0
            with suppress(MalformedBoxError):
                blocks = blocks_of_track(read_at, len(data), track_index, window_bytes=window_bytes)
                sizes = blocks.size - len(blocks.stripped)
                if (sizes <= 0).any() or (blocks.start + sizes > len(data)).any():
                    raise AssertionError("frames beyond the end of the file")
            if num_read > 64 * (len(data) + window_bytes):
                raise AssertionError(f"{num_read} bytes read of {len(data)}")


def units(data: bytes) -> None:
    """NAL units, OBUs and start codes; the first byte is the length of the codec's configuration."""
    length = data[0] if data else 0
    extradata, packet = data[1 : 1 + length], memoryview(data[1 + length :])
    for codec in _UNITS:
        is_disposable, content_of = disposable_parser(codec, extradata), content_parser(codec, extradata)
        breaks = break_detector(codec, extradata, is_at_start=False)
        for part in (packet, packet[len(packet) // 2 :]):
            is_disposable(part)
            has_valid_start(codec, part)
            content_of(part)
            refreshes_gradually(codec, extradata, part)
            if breaks is not None:
                breaks.find(part)
    parser = H264Parser(extradata)
    for part in (packet, packet[len(packet) // 2 :], packet):
        parser.read(part)
    for codec in _UNITS:
        inspector = packet_inspector(codec, extradata)
        for part in (packet, packet[len(packet) // 2 :], packet):
            head = bytes(part if inspector.needs_whole_packets else part[:HEAD_BYTES])
            if head and not inspector.pass_plain(head, len(part)):
                inspector.inspect(part, packet)
    for codec in CODECS_OF_SEQUENCES:
        sequences = sequence_parser(codec, extradata)
        sequences.is_plain(packet)
        with suppress(ValueError, IndexError):
            sequences.split(packet)
    for length_size in (1, 2, 4):
        nal_units_are_valid(packet, length_size)
    slices_are_intact(packet)


def wav_header(data: bytes) -> None:
    breaks_off(_read_at(data), len(data))
    assert (stated_audio_seconds(_read_at(data), len(data)) or 0) >= 0
    with suppress(MediaTensorError):
        header = parse_wav_header(_read_at(data), len(data), "fuzz.wav")
        if header.frame_bytes <= 0 or header.num_samples * header.frame_bytes > len(data):
            raise AssertionError(f"samples beyond the end of the file: {header}")


def joined_files(data: bytes) -> None:
    read_at = _read_at(data)
    for format_name in ("flac", "mpegts", "ogg", "wv"):
        time_restarts(format_name, read_at, len(data))
    for link in ogg_links(read_at, len(data)):
        assert link.kinds is not None
        assert (link.num_seconds or 0) >= 0
    flac_seconds(read_at, len(data))
    wavpack_parts(read_at, len(data))
    has_stated_size(read_at, len(data))
    for is_mp3 in (False, True):
        FrameWalk(is_mp3).place_of(read_at, 0, 1000)
    assert begins_file(data) or id3_end(data) == 0
    memory = OpusMemory(data)
    for at in range(0, len(data), 16):
        memory.take(data[at : at + 16])


def vorbis(data: bytes) -> None:
    modes = vorbis_modes(b"\2" + data) or VorbisModes((256, 2048))
    assert modes.block_size(data[0] if data else 0) in (None, *modes.block_sizes)
    at = data.find(b"OggS")
    while at >= 0:
        first_packet_end(_read_at(data), at, modes)
        at = data.find(b"OggS", at + 1)


def mp3_header(data: bytes) -> None:
    assert (stated_audio_seconds(_read_at(data), len(data)) or 0) >= 0
    frames = constant_frames(_read_at(data), len(data))
    if frames is not None:
        for number in {0, frames.num_frames // 2, frames.num_frames - 1}:
            find_frame(_read_at(data), frames, number)
            frames.num_discarded(number)


def index_file(data: bytes) -> None:
    with suppress(MediaTensorError):
        index = FrameIndex.load(_file(data))
        if len(index) != len(index.pts_seconds):
            raise AssertionError("an index whose columns are not of one length")


def frame_mappings(data: bytes) -> None:
    with suppress(MediaTensorError):
        parse_frame_mappings(data)


def images(data: bytes) -> None:
    """The structure of GIF, PNG, JPEG, WebP and TIFF files."""
    for parse in (parse_gif, parse_png, read_jpeg_headers, webp_canvas):
        with suppress(MediaTensorError, DamagedImageError):
            parse(data)
    if is_tiff(data):
        with suppress(MediaTensorError):
            page_offsets(io.BytesIO(data))


def subtitles(data: bytes) -> None:
    for codec in _SUBTITLES:
        with suppress(UnicodeDecodeError):  # becomes a DecodeError, which names the encoding
            parse_text(codec, data)


def onnx(data: bytes) -> None:
    with suppress(MediaTensorError):
        read_onnx(_file(data))


def tar(data: bytes) -> None:
    for can_seek in (False, True):
        reader = TarReader(io.BufferedReader(io.BytesIO(data)), "fuzz.tar", can_seek=can_seek)
        with suppress(MediaTensorError, tarfile.TarError):
            for member in reader:
                if len(reader.read(member.size)) != member.size:
                    raise AssertionError(f"not all of {member}")


def parquet_pages(data: bytes) -> None:
    """A column of a Parquet file that begins with these bytes; no value may lie outside of it."""
    for num_values in (1, 2, 50):
        for max_level in (0, 1, 2):
            for compression in (None, "none that packs"):
                chunk = Chunk(0, len(data), num_values, max_level, compression)
                with suppress(UnknownPagesError):
                    dictionary, pages = data_pages(_read_at(data), chunk)
                    for page in pages:
                        for value in values_of_page(
                            _read_at(data), page, dictionary, chunk, lambda packed, size: packed
                        ):
                            if isinstance(value, tuple) and not 0 <= value[0] <= value[1] <= len(data):
                                raise AssertionError(f"a value beyond its column: {value}")


def exports(data: bytes) -> None:
    """An export of a page that was read, restored and written in every format."""
    try:
        export = json.loads(data)
    except (ValueError, RecursionError):
        return
    with suppress(MediaTensorError):
        document = Document.from_dict(export)
        document.render()
        for kind in ("markdown", "html", "asciidoc", "tsv", "alto", "xml"):
            document.export_as(kind)


def _file(data: bytes) -> Path:
    path = Path(tempfile.gettempdir()) / "fuzz-parser.bin"
    path.write_bytes(data)
    return path


#: By name, with the kind of file of `corpus` whose files they parse.
PARSERS: Mapping[str, tuple[Callable[[bytes], None], str]] = {
    "sample_tables": (sample_tables, "video"),
    "matroska_blocks": (matroska_blocks, "video"),
    "units": (units, "video"),
    "wav_header": (wav_header, "wav"),
    "joined_files": (joined_files, "audio"),
    "vorbis": (vorbis, "audio"),
    "mp3_header": (mp3_header, "audio"),
    "index_file": (index_file, "index"),
    "frame_mappings": (frame_mappings, "mappings"),
    "images": (images, "image"),
    "subtitles": (subtitles, "subtitle"),
    "onnx": (onnx, "weights"),
    "tar": (tar, "tar"),
    "exports": (exports, "exports"),
    "parquet_pages": (parquet_pages, "rows"),
}

# For kinds with many files, those that a parser accepts.
_CHOSEN = {
    "sample_tables": ("mp4", "mp4_fragmented", "edit_list_two_parts", "h264_field_pairs_mp4"),
    "matroska_blocks": ("mkv", "live_webm", "two_video_streams_mkv", "vp8_alpha"),
    "units": ("raw_h264", "hevc_raw", "av1_obu", "mpeg1_program_stream", "vp9_hidden_frames_ivf"),
    "vorbis": ("vorbis_ogg",),
    "joined_files": ("flac", "vorbis_ogg", "opus_ogg", "wavpack_s16", "aac_ts", "aac_adts"),
    "mp3_header": ("mp3_cbr", "mp3_vbr", "mp3_cbr_no_header"),
    "index_file": ("h264_b_pyramid", "h264_field_pairs_ts"),
    "onnx": ("onnx",),
    "subtitles": ("srt", "vtt", "ass"),
    "parquet_pages": ("paths_parquet", "bytes_parquet"),
}


def seeds_of(name: str, folder: Path) -> list[bytes]:
    """Sound files for a parser; ``folder`` keeps them."""
    kind = PARSERS[name][1]
    files = [seed_file(kind, seed, folder) for seed in _CHOSEN.get(name, seed_names(kind))]
    if name == "parquet_pages":  # the first column follows the four bytes of the file type
        return [data[4:] for data in files]
    # A packet of realistic length, after an empty configuration.
    return [b"\0" + data[:4000] for data in files] if name == "units" else files
