"""One clip for every codec, profile and structure of pictures that matters to random access."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av

from media_surgery import h264_field_pictures, make_packet, pack_b_frames, with_data
from media_theora import write_theora
from media_writing import ClipSpec, Packets, assign, open_output, paint_fade, prepare_encoder, write_clip, x264

_ILDCT_AND_ILME = "+ildct+ilme"


def x265(extra: str = "") -> dict[str, str]:
    parameters = "log-level=none:pools=none:frame-threads=1:keyint=12:min-keyint=12:scenecut=0:bframes=3"
    return {"preset": "ultrafast", "x265-params": f"{parameters}:{extra}".rstrip(":")}


def _vpx(**options: str) -> dict[str, str]:
    # Negative: 5 is a share of the time that there is to VP8's encoder, which then differs on a busy machine.
    return {"deadline": "realtime", "cpu-used": "-5", "b": "200k", "g": "20", **options}


def _vp9_hidden() -> dict[str, str]:
    """The one mode with a single pass in which the encoder makes alternate references that are never shown."""
    return _vpx(**{"auto-alt-ref": "1", "lag-in-frames": "16", "g": "60"})


def svt(**options: str) -> dict[str, str]:
    return {"preset": "12", "g": "16", "svtav1-params": "lp=1:lookahead=16", **options}


def mpeg(**options: str) -> dict[str, str]:
    return {"g": "12", "bf": "2", "b": "600k", "sc_threshold": "1000000000", **options}


def _write_fields(spec: ClipSpec, path: Path) -> None:
    """Interlaced H.264, one packet per field, in whatever container ``spec`` names."""
    columns, rows = spec.size[0] // 16, spec.size[1] // 16
    units = h264_field_pictures(columns, rows, spec.num_frames, spec.rate)
    if spec.container == "h264":
        path.write_bytes(b"".join(units))
        return
    with open_output(spec, path) as output:
        # A stream of copied packets needs an encoder's parameters but not its pictures.
        stream = output.add_stream("libx264", rate=spec.rate)
        prepare_encoder(stream, spec)
        stream.codec_context.extradata = _parameter_sets(units[0])
        tick = Fraction(1, 2 * spec.rate)
        packets = [make_packet(unit, number, number % 20 == 0, tick) for number, unit in enumerate(units)]
        output.mux(assign(packets if spec.rewrite is None else spec.rewrite(packets), stream))


def _leave_every_other_unreferenced(packets: Packets) -> Packets:
    """Make every second frame of `h264_field_pictures`, of two fields in two packets, one that no other refers to.

    The header of a P slice begins there with 1 00110 1 (first macroblock, type, parameter set), frame_num u(4), two
    bits that say which field, pic_order_cnt_lsb u(8), and three zeros: default number and order of references, and no
    special marking. The last of them is only there in references; "references: 1, default order" is as long.
    """
    gop_size = 10
    changed = []
    for number, packet in enumerate(packets):
        in_gop = number // 2 % gop_size
        data = bytearray(bytes(packet))
        slice_at = data.index(b"\0\0\0\1\x61") + 4 if in_gop else 0
        if in_gop:
            frame_num = (in_gop + 1) // 2  # references since the last intra picture
            data[slice_at + 1] = data[slice_at + 1] & ~1 | frame_num >> 3
            data[slice_at + 2] = data[slice_at + 2] & 0x1F | (frame_num & 7) << 5
        if in_gop % 2:
            data[slice_at] = 0x01
            data[slice_at + 3] |= 0b110
        changed.append(with_data(packet, bytes(data)))
    return changed


def _join_fields(packets: Packets) -> Packets:
    """Both fields of a frame in one packet."""
    pairs = zip(packets[::2], packets[1::2], strict=True)
    return [with_data(first, bytes(first) + bytes(second)) for first, second in pairs]


def _hide_reordering(packets: Packets) -> Packets:
    """Take the usability information out of H.264 parameter sets, so that decoders must guess how far to reorder."""
    changed = []
    for packet in packets:
        units = bytes(packet).split(b"\0\0\1")
        units = [_without_usability_information(unit) if unit[:1] == b"\x67" else unit for unit in units]
        changed.append(with_data(packet, b"\0\0\1".join(units)))
    return changed


def _without_usability_information(unit: bytes) -> bytes:
    """A sequence parameter set of High profile, frames, no scaling lists (ITU-T H.264, 7.3.2.1.1), cut short."""
    bits = "".join(f"{byte:08b}" for byte in unit)

    def skip_code(at: int) -> int:
        zeros = bits.index("1", at) - at
        return at + 2 * zeros + 1

    at = 32  # header, profile, constraints, level
    for step in "uuuu11uuuu1uu11":  # codes and flags up to direct_8x8_inference_flag; order count type 0
        at = skip_code(at) if step == "u" else at + 1
    if bits[at] == "1":  # cropping
        for _ in range(4):
            at = skip_code(at + 1) - 1
    bits = bits[: at + 1] + "01"  # no usability information; stop bit
    return int(bits.ljust(-len(bits) // 8 * -8, "0"), 2).to_bytes(-(-len(bits) // 8), "big")


def _decode_earlier(packets: Packets) -> Packets:
    """Decoding times that allow for eight pictures of reordering; the encoder's are too late for deep hierarchies."""
    for number, packet in enumerate(packets):
        packet.dts = number - 8
    return packets


def _parameter_sets(unit: bytes) -> bytes:
    return unit[unit.index(b"\0\0\0\1\x67") : unit.index(b"\0\0\0\1\x65")]


def _split_superframes(packets: Packets) -> Packets:
    """Give every VP9 frame, including hidden ones, its own packet, a tick apart."""
    split = av.BitStreamFilterContext("vp9_superframe_split", in_stream=av.Codec("vp9", "r"))
    out: Packets = []
    for packet in packets:
        # The filter empties the packet, so its facts are read first.
        pts, is_key, time_base = packet.pts, packet.is_keyframe, packet.time_base
        parts = [bytes(part) for part in split.filter(packet)]
        for number, data in enumerate(parts):
            time = pts - (len(parts) - 1 - number)
            out.append(make_packet(data, time, is_key and number == 0, time_base))
    return out


def _hide_some(packets: Packets) -> Packets:
    """Clear VP8's show_frame flag in every seventh packet, which makes it one that only updates references."""
    return [
        packet if number % 7 != 3 else with_data(packet, bytes([packet_data[0] & ~0x10]) + packet_data[1:])
        for number, packet in enumerate(packets)
        for packet_data in [bytes(packet)]
    ]


def _show_again(packets: Packets) -> Packets:
    """Insert VP9 packets of one byte that show a reference once more, halfway to the next frame."""
    out: Packets = []
    for number, packet in enumerate(packets):
        out.append(packet)
        if number % 6 == 5:
            out.append(make_packet(bytes([0x88 | number % 3]), packet.pts + 1, False, packet.time_base))
    return out


def _write_theora(spec: ClipSpec, path: Path) -> None:
    """Two quantizers a picture, in an order that brings all pairs of them after each other."""
    pairs = ((50, 10), (10, 30), (10, 50), (30, 10), (50, 30))
    write_theora(path, [pairs[number * number % 7 % 5] for number in range(spec.num_frames)], size=spec.size)


def _write_prefix_units(spec: ClipSpec, path: Path) -> None:
    """H.264 in MP4, one unit with a length in each sample, as some phones write it.

    The unit is of type 14 (prefix). Its payload continues with the sample's own units after start codes.
    """
    plain = write_clip(replace(spec, build=None), path.with_suffix(".plain"))
    with av.open(str(plain)) as source, open_output(spec, path) as output:
        stream: Any = output.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if not packet.size:
                continue
            unit = b"\x6e\x40\x80\x07" + b"".join(b"\0\0\0\1" + unit for unit in _units_with_lengths(bytes(packet)))
            wrapped = with_data(packet, len(unit).to_bytes(4, "big") + unit)
            wrapped.stream = stream
            output.mux(wrapped)
    plain.unlink()


def _units_with_lengths(data: bytes) -> Iterator[bytes]:
    while data:
        stop = 4 + int.from_bytes(data[:4], "big")
        yield data[4:stop]
        data = data[stop:]


def _interlaced(stream: Any) -> None:
    stream.codec_context.field_order = 2  # top field first
    stream.codec_context.flags |= 0x20040000  # interlaced DCT and motion estimation


H264 = {
    "h264_no_b_frames": ClipSpec("no reordering", options=x264(bf="0")),
    "h264_b_pyramid": ClipSpec("B pictures that are references", options=x264("b-pyramid=normal:b-adapt=0")),
    "h264_open_gop": ClipSpec("leading pictures at key frames", options=x264("open-gop=1:b-adapt=0")),
    "h264_asf": ClipSpec(
        "times of decoding", container="asf", extension="asf", options=x264("open-gop=1:b-adapt=0")
    ),
    "h264_one_gop": ClipSpec(
        "600 frames after one key frame", options=x264(g="600"), num_frames=600, size=(64, 48)
    ),
    "h264_all_intra": ClipSpec("every frame is a key frame", options=x264(g="1")),
    "h264_16_b_frames": ClipSpec(
        "16 B pictures in a row", options=x264("b-adapt=0:bframes=16:b-pyramid=normal", g="40")
    ),
    "h264_10bit": ClipSpec("10 bits a component", options=x264(), pix_fmt="yuv420p10le"),
    "h264_422": ClipSpec("4:2:2", options=x264(), pix_fmt="yuv422p"),
    "h264_422_10bit": ClipSpec("4:2:2 with 10 bits", options=x264(), pix_fmt="yuv422p10le"),
    "h264_444": ClipSpec("4:4:4, odd size", options=x264(), pix_fmt="yuv444p", size=(101, 67)),
    "h264_rgb": ClipSpec("planar RGB", "libx264rgb", options=x264(), pix_fmt="rgb24"),
    "h264_gray": ClipSpec("luma only", options=x264(), pix_fmt="gray"),
    "h264_mbaff": ClipSpec("interlaced macroblocks in frames", options=x264("tff=1"), configure=_interlaced),
    "h264_fake_interlaced": ClipSpec("progressive, flagged as interlaced", options=x264("fake-interlaced=1")),
    "h264_field_pairs_mkv": ClipSpec(
        "a packet per field", container="matroska", extension="mkv", size=(64, 64), build=_write_fields
    ),
    "h264_field_pairs_mp4": ClipSpec("a packet per field", size=(64, 64), build=_write_fields),
    "h264_field_pairs_raw": ClipSpec(
        "a packet per field and no time", container="h264", extension="h264", size=(64, 64), build=_write_fields
    ),
    "h264_field_pairs_ts": ClipSpec(
        "a packet per field", container="mpegts", extension="ts", size=(64, 64), build=_write_fields
    ),
    "h264_field_pairs_unreferenced": ClipSpec(
        "a packet per field; no picture refers to every other frame", container="matroska", extension="mkv",
        size=(64, 64), build=_write_fields, rewrite=_leave_every_other_unreferenced,
    ),
    "h264_field_pairs_in_packets": ClipSpec(
        "a packet per frame of two fields; no picture refers to every other frame", size=(64, 64), build=_write_fields,
        rewrite=lambda packets: _join_fields(_leave_every_other_unreferenced(packets)),
    ),
    "h264_lone_fields_mkv": ClipSpec(
        "two fields lost, a first and a second one", container="matroska", extension="mkv", size=(64, 64),
        build=_write_fields, rewrite=lambda packets: packets[:31] + packets[32:56] + packets[57:],
    ),
    "h264_lossless": ClipSpec("quantiser 0", options=x264(qp="0")),
    "h264_intra_refresh": ClipSpec(
        "refreshed column by column; flagged packets are not clean entries", options=x264("intra-refresh=1", bf="0")
    ),
    "h264_weighted": ClipSpec("weighted prediction", options=x264("weightp=2:weightb=1"), paint=paint_fade),
    "h264_temporal_direct": ClipSpec(
        "motion from other pictures' motion, interlaced",
        options=x264("tff=1:direct=temporal:b-pyramid=normal:b-adapt=0"), configure=_interlaced,
    ),
    "h264_hidden_reordering": ClipSpec(
        "decoders must guess how far to reorder", container="mpegts", extension="ts", rewrite=_hide_reordering,
        options=x264("b-pyramid=normal:b-adapt=0"),
    ),
    "h264_hidden_reordering_16": ClipSpec(
        "decoders must guess how far to reorder", container="mpegts", extension="ts", rewrite=_hide_reordering,
        options=x264("b-adapt=0:bframes=16:b-pyramid=normal", g="40"),
    ),
    "h264_slices": ClipSpec("four slices a picture", options=x264("slices=4")),
    "h264_long_term": ClipSpec("16 references", options=x264("ref=16:b-adapt=0", g="40"), num_frames=80),
    "h264_prefix_units": ClipSpec(
        "prefix units with lengths that hold all other units after start codes", options=x264("b-adapt=0:aud=1"),
        build=_write_prefix_units, size=(176, 144),
    ),
    "h264_nal_hrd": ClipSpec(
        "buffering SEI, delimiters",
        options=x264("nal-hrd=vbr:aud=1", b="300k", maxrate="300k", bufsize="300k"),
    ),
}  # fmt: skip

HEVC = {
    "hevc_closed_gop": ClipSpec("IDR only", "libx265", options=x265("open-gop=0")),
    "hevc_open_gop": ClipSpec("CRA with RASL pictures", "libx265", options=x265("open-gop=1:b-adapt=0")),
    "hevc_open_gop_mkv": ClipSpec(
        "CRA with RASL pictures", "libx265", "matroska", "mkv", options=x265("open-gop=1:b-adapt=0")
    ),
    "hevc_open_gop_ts": ClipSpec(
        "CRA with RASL pictures", "libx265", "mpegts", "ts", options=x265("open-gop=1:b-adapt=0:repeat-headers=1")
    ),
    "hevc_radl": ClipSpec("IDR with RADL pictures", "libx265", options=x265("open-gop=0:radl=2:b-adapt=0")),
    "hevc_temporal_layers": ClipSpec("sub-layers", "libx265", options=x265("temporal-layers=3:b-pyramid=1:b-adapt=0")),
    "hevc_five_temporal_layers": ClipSpec(
        "four levels of B pictures", "libx265", num_frames=72,
        options=x265("keyint=32:min-keyint=32:bframes=15:rc-lookahead=20:temporal-layers=5:b-adapt=0"),
        rewrite=_decode_earlier,
    ),
    "hevc_temporal_layers_ts": ClipSpec(
        "sub-layers, parameter sets at every key frame", "libx265", "mpegts", "ts",
        options=x265("temporal-layers=3:b-pyramid=1:b-adapt=0:repeat-headers=1"),
    ),
    "hevc_weighted": ClipSpec("weighted prediction", "libx265", paint=paint_fade, options=x265("weightp=1:weightb=1")),
    "hevc_10bit": ClipSpec("10 bits", "libx265", options=x265(), pix_fmt="yuv420p10le"),
    "hevc_422_12bit": ClipSpec("4:2:2, 12 bits", "libx265", options=x265(), pix_fmt="yuv422p12le", num_frames=24),
    "hevc_444": ClipSpec("4:4:4", "libx265", options=x265(), pix_fmt="yuv444p", num_frames=24),
    "hevc_gbr": ClipSpec("planar RGB", "libx265", options=x265(), pix_fmt="gbrp", num_frames=24),
    "hevc_raw": ClipSpec("elementary stream", "libx265", "hevc", "hevc", options=x265()),
}  # fmt: skip

VPX_AND_AV1 = {
    "vp8": ClipSpec("plain", "libvpx", "webm", "webm", options=_vpx()),
    "vp8_hidden_frames": ClipSpec(
        "packets that show nothing", "libvpx", "webm", "webm", options=_vpx(), num_frames=60, rewrite=_hide_some
    ),
    "vp8_alpha": ClipSpec(
        "alpha in block additions", "libvpx", "webm", "webm", options=_vpx(**{"auto-alt-ref": "0"}), pix_fmt="yuva420p"
    ),
    "vp8_ivf": ClipSpec("IVF", "libvpx", "ivf", "ivf", options=_vpx()),
    "vp8_ogg": ClipSpec("Ogg", "libvpx", "ogg", "ogv", options=_vpx()),
    "vp9": ClipSpec("odd size", "libvpx-vp9", "webm", "webm", options=_vpx(), size=(161, 121)),
    "vp9_hidden_frames": ClipSpec(
        "superframes", "libvpx-vp9", "webm", "webm", options=_vp9_hidden(), num_frames=60, size=(160, 120)
    ),
    "vp9_hidden_frames_ivf": ClipSpec(
        "superframes", "libvpx-vp9", "ivf", "ivf", options=_vp9_hidden(), num_frames=60, size=(160, 120)
    ),
    "vp9_hidden_frames_split": ClipSpec(
        "hidden frames in separate packets", "libvpx-vp9", "nut", "nut", options=_vp9_hidden(), num_frames=60,
        size=(160, 120), rewrite=_split_superframes, time_base=Fraction(1, 50), pts=range(1, 121, 2),
    ),
    "vp9_show_existing_frame": ClipSpec(
        "packets that show an old picture again", "libvpx-vp9", "webm", "webm", options=_vpx(), rewrite=_show_again,
        time_base=Fraction(1, 50), pts=range(0, 80, 2),
    ),
    "vp9_temporal_layers": ClipSpec(
        "frames that are not references", "libvpx-vp9", "webm", "webm", options=_vpx(**{"ts-parameters": (
            "ts_number_layers=3:ts_target_bitrate=60,100,200:ts_rate_decimator=4,2,1:ts_periodicity=4:"
            "ts_layer_id=0,2,1,2:ts_layering_mode=3")}),
    ),
    "vp9_mp4": ClipSpec("superframes", "libvpx-vp9", options=_vp9_hidden(), num_frames=60, size=(160, 120)),
    "vp9_444": ClipSpec("4:4:4", "libvpx-vp9", "webm", "webm", options=_vpx(), pix_fmt="yuv444p", num_frames=24),
    "vp9_440": ClipSpec("4:4:0", "libvpx-vp9", "webm", "webm", options=_vpx(), pix_fmt="yuv440p", num_frames=24),
    "av1": ClipSpec("hidden frames in temporal units", "libsvtav1", options=svt()),
    "av1_10bit": ClipSpec("10 bits", "libsvtav1", "webm", "webm", options=svt(), pix_fmt="yuv420p10le"),
    "av1_low_delay": ClipSpec("no hidden frames", "libsvtav1", "matroska", "mkv", options=svt(
        **{"svtav1-params": "lp=1:pred-struct=1:lookahead=0"})),
    "av1_hierarchical": ClipSpec("five levels of pictures", "libsvtav1", num_frames=72, options=svt(
        **{"g": "64", "svtav1-params": "lp=1:hierarchical-levels=5:lookahead=33"})),
    "av1_film_grain": ClipSpec("noise that decoders add", "libsvtav1", options=svt(
        **{"svtav1-params": "lp=1:hierarchical-levels=3:lookahead=16:film-grain=20"})),
    "av1_obu": ClipSpec("elementary stream", "libsvtav1", "obu", "obu", options=svt()),
    "av1_ivf": ClipSpec("IVF", "libsvtav1", "ivf", "ivf", options=svt()),
}  # fmt: skip

MPEG = {
    "mpeg1_program_stream": ClipSpec("packs", "mpeg1video", "mpeg", "mpg", options=mpeg()),
    "mpeg1_raw": ClipSpec("elementary stream without times", "mpeg1video", "mpeg1video", "m1v", options=mpeg()),
    "mpeg2_open_gop": ClipSpec("B pictures before key frames", "mpeg2video", "vob", "mpg", options=mpeg()),
    "mpeg2_closed_gop": ClipSpec("closed", "mpeg2video", "vob", "mpg", options=mpeg(flags="+cgop")),
    "mpeg2_ts": ClipSpec("transport stream", "mpeg2video", "mpegts", "ts", options=mpeg()),
    "mpeg2_mkv": ClipSpec("Matroska", "mpeg2video", "matroska", "mkv", options=mpeg()),
    "mpeg2_mp4": ClipSpec("MP4", "mpeg2video", options=mpeg()),
    "mpeg2_mxf": ClipSpec("MXF", "mpeg2video", "mxf", "mxf", options=mpeg()),
    "mpeg2_raw": ClipSpec("elementary stream without times", "mpeg2video", "mpeg2video", "m2v", options=mpeg()),
    "mpeg2_interlaced": ClipSpec(
        "field prediction", "mpeg2video", "mpegts", "ts", options=mpeg(flags=_ILDCT_AND_ILME), size=(96, 96)
    ),
    "mpeg2_422": ClipSpec("4:2:2 intra", "mpeg2video", "mov", "mov", options=mpeg(g="1", bf="0"), pix_fmt="yuv422p"),
    "mpeg4_avi": ClipSpec("no B pictures", "mpeg4", "avi", "avi", options=mpeg(bf="0")),
    "mpeg4_b_frames_avi": ClipSpec("B pictures without pts", "mpeg4", "avi", "avi", options=mpeg()),
    "mpeg4_packed_b_frames": ClipSpec(
        "two pictures in a packet, then an empty one", "mpeg4", "avi", "avi", options=mpeg(bf="1"),
        rewrite=pack_b_frames(5),
    ),
    "mpeg4_mp4": ClipSpec("B pictures with pts", "mpeg4", options=mpeg()),
    "mpeg4_raw": ClipSpec("elementary stream", "mpeg4", "m4v", "m4v", options=mpeg()),
    "mpeg4_qpel_gmc": ClipSpec("quarter pel", "mpeg4", "matroska", "mkv", options=mpeg(flags="+qpel+mv4")),
    "mpeg4_interlaced": ClipSpec(
        "field prediction", "mpeg4", "matroska", "mkv", options=mpeg(flags=_ILDCT_AND_ILME, bf="3"), size=(96, 96),
        configure=_interlaced,
    ),
    "msmpeg4_avi": ClipSpec("DivX 3", "msmpeg4", "avi", "avi", options=mpeg(bf="0")),
    "wmv2_asf": ClipSpec("ASF", "wmv2", "asf", "wmv", options=mpeg(bf="0")),
    "h263_3gp": ClipSpec("3GP", "h263", "3gp", "3gp", options=mpeg(bf="0"), size=(176, 144)),
    "h263p_avi": ClipSpec("H.263+", "h263p", "avi", "avi", options=mpeg(bf="0")),
    "flv1": ClipSpec("Sorenson H.263", "flv", "flv", "flv", options=mpeg(bf="0")),
    "rv20": ClipSpec("RealVideo", "rv20", "rm", "rm", options=mpeg(bf="0")),
    "svq1": ClipSpec("Sorenson 1", "svq1", "mov", "mov", options={"g": "10"}, pix_fmt="yuv410p"),
}  # fmt: skip

OTHERS = {
    "mjpeg_avi": ClipSpec("full range 4:2:2", "mjpeg", "avi", "avi", pix_fmt="yuvj422p"),
    "mjpeg_odd_mov": ClipSpec("odd size, full range", "mjpeg", "mov", "mov", pix_fmt="yuvj420p", size=(161, 121)),
    "mjpeg_raw": ClipSpec("pictures after each other", "mjpeg", "mjpeg", "mjpeg", pix_fmt="yuvj420p"),
    "prores": ClipSpec("10-bit 4:2:2", "prores_ks", "mov", "mov", pix_fmt="yuv422p10le"),
    "prores_alpha": ClipSpec("4:4:4 with alpha", "prores_ks", "mov", "mov", options={"profile": "4"},
        pix_fmt="yuva444p10le", num_frames=12),
    "dnxhr": ClipSpec("intra only", "dnxhd", "mov", "mov", options={"profile": "dnxhr_sq"}, pix_fmt="yuv422p",
        size=(256, 144), num_frames=30),
    "cineform": ClipSpec("wavelets", "cfhd", "mov", "mov", pix_fmt="yuv422p10le", size=(96, 64)),
    "jpeg2000": ClipSpec("wavelets", "jpeg2000", "mov", "mov", pix_fmt="yuv420p"),
    "ffv1_gop": ClipSpec("states carried over 10 frames", "ffv1", "matroska", "mkv", options={"g": "10", "level": "3"}),
    "ffv1_16bit": ClipSpec("16 bits", "ffv1", "matroska", "mkv", options={"g": "10", "level": "3"},
        pix_fmt="yuv420p16le", num_frames=30),
    "huffyuv": ClipSpec("4:2:2", "huffyuv", "avi", "avi", pix_fmt="yuv422p"),
    "ffvhuff": ClipSpec("4:2:0", "ffvhuff", "avi", "avi"),
    "utvideo": ClipSpec("planar RGB", "utvideo", "avi", "avi", pix_fmt="gbrp"),
    "magicyuv": ClipSpec("4:4:4", "magicyuv", "avi", "avi", pix_fmt="yuv444p"),
    "snow": ClipSpec("wavelets with motion", "snow", "matroska", "mkv", options={"g": "10", "strict": "-2"}),
    "png_mov": ClipSpec("RGB", "png", "mov", "mov", pix_fmt="rgb24", size=(97, 65)),
    "png_palette": ClipSpec("palette", "png", "mov", "mov", pix_fmt="pal8"),
    "png_16bit": ClipSpec("16-bit RGB", "png", "mov", "mov", pix_fmt="rgb48be"),
    "qtrle": ClipSpec("changed lines only", "qtrle", "mov", "mov", options={"g": "12"}, pix_fmt="rgb24"),
    "cinepak": ClipSpec("code books", "cinepak", "avi", "avi", options={"g": "12"}, pix_fmt="rgb24"),
    "zmbv": ClipSpec("inter-coded screen", "zmbv", "avi", "avi", options={"g": "12"}, pix_fmt="bgr0"),
    "flashsv": ClipSpec("changed blocks only", "flashsv", "flv", "flv", options={"g": "12"}, pix_fmt="bgr24"),
    "raw_avi": ClipSpec("bottom-up lines", "rawvideo", "avi", "avi", pix_fmt="bgr24"),
    "raw_palette_avi": ClipSpec("a palette in the header", "rawvideo", "avi", "avi", pix_fmt="pal8"),
    "raw_palette_mov": ClipSpec("a palette in the header", "rawvideo", "mov", "mov", pix_fmt="pal8"),
    "raw_palettes_avi": ClipSpec("palettes that change", "rawvideo", "avi", "avi", pix_fmt="pal8",
        pictures_per_palette=7),
    "msrle_palettes": ClipSpec("palettes that change", "msrle", "avi", "avi", options={"g": "12"}, pix_fmt="pal8",
        pictures_per_palette=7),
    "smc": ClipSpec("a palette in the header", "smc", "mov", "mov", options={"g": "12"}, pix_fmt="pal8"),
    "raw_nut": ClipSpec("no compression", "rawvideo", "nut", "nut", pix_fmt="yuv420p"),
    "raw_y4m": ClipSpec("no time stamps", "wrapped_avframe", "yuv4mpegpipe", "y4m"),
    "raw_nv12": ClipSpec("interleaved chroma", "rawvideo", "nut", "nut", pix_fmt="nv12"),
    "raw_packed_422": ClipSpec("packed 4:2:2", "rawvideo", "avi", "avi", pix_fmt="yuyv422"),
    "v210": ClipSpec("packed 10-bit 4:2:2", "v210", "mov", "mov", pix_fmt="yuv422p10le"),
    "theora": ClipSpec("several quantizers", "theora", "ogg", "ogv", build=_write_theora),
    "still_png": ClipSpec("one picture", "png", "image2", "png", muxer_options={"update": "1"}, pix_fmt="rgba",
        num_frames=1),
    "still_jpeg": ClipSpec("one picture", "mjpeg", "image2", "jpg", muxer_options={"update": "1"}, pix_fmt="yuvj420p",
        num_frames=1, size=(101, 67)),
    "still_webp": ClipSpec("one picture", "libwebp", "webp", "webp", num_frames=1),
    "gif": ClipSpec("palette, partial pictures", "gif", "gif", "gif", pix_fmt="bgr8"),
    "apng": ClipSpec("partial pictures", "apng", "apng", "png", pix_fmt="rgb24"),
    "apng_alpha": ClipSpec("alpha", "apng", "apng", "png", pix_fmt="rgba", num_frames=20),
}  # fmt: skip

CODEC_CLIPS = {**H264, **HEVC, **VPX_AND_AV1, **MPEG, **OTHERS}
