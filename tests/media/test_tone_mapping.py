"""Tone mapping of HDR video gives the values of ITU-R BT.2100, of BT.2390, and of FFmpeg's filters."""

from __future__ import annotations

import io
import pickle
import shutil
import subprocess
import warnings
from collections.abc import Callable
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mediatensor._engine.common.messages import forget_warnings
from mediatensor.decoders import VideoDecoder
from mediatensor.transforms import CenterCrop, Resize

PQ, HLG, SDR = 16, 18, 1  # of ITU-T H.273
HEIGHT, WIDTH = 96, 160

# From BT.2020 to BT.709: ITU-R BT.2087. From P3 with the white D65 to BT.709: SMPTE EG 432-1, RP 431-2.
TO_BT709 = {
    9: np.array([[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]]),
    12: np.array([[1.2249, -0.2249, 0.0], [-0.0420, 1.0420, 0.0], [-0.0197, -0.0786, 1.0983]]),
    1: np.eye(3),
}


def signal(number: int) -> NDArray[Any]:
    """Return R'G'B' in [0, 1] of a frame with gray, saturated patches and smooth colours."""
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    pixels = np.empty((HEIGHT, WIDTH, 3))
    pixels[:32] = (columns[:32] / (WIDTH - 1))[..., None]
    hues = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 1], [1, 0.5, 0], [0.5, 1, 1]])
    for patch, hue in enumerate(hues):
        pixels[32:64, patch * 20 : patch * 20 + 20] = hue * 0.7 + 0.02 * number
    for channel, (step, shift) in enumerate(((40, 1), (25, 2), (33, 3))):
        pixels[64:, :, channel] = 0.5 + 0.4 * np.sin(columns[64:] / step + rows[64:] / 9 + shift + number / 5)
    return pixels.clip(0, 1)


@cache
def encoded(
    codec: str,
    pixel_format: str,
    transfer: int,
    *,
    primaries: int = 9,
    color_range: int = 1,
    container: str = "matroska",
    parameters: str = "",
) -> bytes:
    """Encode three frames of `signal` with the given colour tags."""
    buffer = io.BytesIO()
    is_rgb = pixel_format.startswith("gbr")
    tags = {"color_trc": transfer, "color_primaries": primaries, "colorspace": 0 if is_rgb else 9}
    tags["color_range"] = 2 if is_rgb else color_range
    with av.open(buffer, "w", format=container) as output:
        stream: Any = output.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, pixel_format
        if codec == "libx265":
            stream.options = {"preset": "ultrafast", "x265-params": f"log-level=none:crf=4{parameters}"}
        if codec == "libsvtav1":
            stream.options = {"preset": "12", "crf": "10", "svtav1-params": f"lp=1{parameters}"}
        for name, value in tags.items():
            setattr(stream.codec_context, name, value)
        for number in range(3):
            levels = (signal(number) * 65535).round().astype(np.uint16)
            frame: Any = av.VideoFrame.from_ndarray(levels, format="rgb48le")
            target = {} if is_rgb else {"dst_colorspace": 9, "dst_color_range": color_range}
            frame = frame.reformat(format=pixel_format, **target)
            for name, value in tags.items():
                setattr(frame, name, value)
            frame.pts = number
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return buffer.getvalue()


def rgb_of(video: object, start: int = 0) -> NDArray[Any]:
    """Return R'G'B' (N, H, W, 3) of frames from ``start`` on, by FFmpeg's scale filter, in units of 1/65535."""
    frames = []
    with av.open(video) as container:
        graph: Any = None
        for frame in islice(container.decode(video=0), start, None):
            if graph is None:
                graph = av.filter.Graph()
                steps = [graph.add("scale", "flags=bicubic"), graph.add("format", "gbrp16le"), graph.add("buffersink")]
                source = graph.add_buffer(
                    width=frame.width, height=frame.height, format=frame.format.name, time_base=frame.time_base
                )
                for one, other in pairwise([source, *steps]):
                    one.link_to(other)
                graph.configure()
            graph.push(frame)
            rgb = graph.pull()
            planes = (np.frombuffer(rgb.planes[number], "<u2").reshape(rgb.height, -1) for number in (2, 0, 1))
            frames.append(np.stack([plane[:, : rgb.width] for plane in planes], axis=-1))
    return np.stack(frames).astype(float)


def pq_signal(light: Any) -> Any:
    power = (light / 10000) ** (1305 / 8192)
    return ((107 / 128 + 2413 / 128 * power) / (1 + 2392 / 128 * power)) ** (2523 / 32)


def pq_light(values: Any) -> Any:
    power = values ** (32 / 2523)
    return 10000 * (np.maximum(power - 107 / 128, 0) / (2413 / 128 - 2392 / 128 * power)) ** (8192 / 1305)


def hlg_light(values: NDArray[Any]) -> NDArray[Any]:
    scene = np.where(values <= 0.5, values**2 / 3, (np.exp((values - 0.55991073) / 0.17883277) + 0.28466892) / 12)
    return 1000 * scene * (scene @ [0.2627, 0.6780, 0.0593])[..., None] ** 0.2


def eetf(light: NDArray[Any], peak: float) -> NDArray[Any]:
    """Apply the EETF of ITU-R BT.2390, section 5.4.1, from [0, peak] to [0, 203] cd/m²."""
    values = np.minimum(pq_signal(light) / pq_signal(peak), 1)
    highest = pq_signal(203.0) / pq_signal(peak)
    start = min(1.5 * highest - 0.5, 1 - 1e-9)
    t = (values - start) / (1 - start)
    spline = (2 * t**3 - 3 * t**2 + 1) * start + (t**3 - 2 * t**2 + t) * (1 - start) + (3 * t**2 - 2 * t**3) * highest
    return np.asarray(pq_light(np.where(values < start, values, spline) * pq_signal(peak)))


def hable(light: NDArray[Any], peak: float) -> NDArray[Any]:
    def curve(x: Any) -> Any:
        return (x * (x * 0.15 + 0.10 * 0.50) + 0.20 * 0.02) / (x * (x * 0.15 + 0.50) + 0.20 * 0.30) - 0.02 / 0.30

    return np.asarray(203 * curve(light / 203) / curve(peak / 203))


def expected_light(values: NDArray[Any], transfer: int, curve: str, primaries: int = 9, peak: float = 1000) -> Any:
    """Compute the light of an SDR display with white at 1 in float64, from R'G'B' of HDR."""
    light = pq_light(values) if transfer == PQ else hlg_light(values)
    brightest = np.maximum(light.max(-1, keepdims=True), 1e-4)
    mapped = eetf(brightest, peak) if curve == "bt2390" else hable(brightest, peak)
    return (light * mapped / brightest / 203 @ TO_BT709[primaries].T).clip(0, 1)


def assert_close(frames: torch.Tensor, light: NDArray[Any], mean: float = 0.25, highest: float = 0.05) -> None:
    """Compare uint8 frames (N, 3, H, W) with light (N, H, W, 3).

    ``mean`` is in levels of 255. ``highest`` is in light, because near 0 a level is a tiny change of light: a component
    of a saturated colour can miss it by many levels. It is highest for saturated colours brighter than the peak.
    """
    levels = frames.cpu().permute(0, 2, 3, 1).double().numpy()
    assert abs(levels - 255 * light ** (1 / 2.4)).mean() < mean
    assert abs((levels / 255) ** 2.4 - light).max() < highest


@pytest.mark.parametrize("device", ["cpu", "fake"])
@pytest.mark.parametrize(
    ("transfer", "curve", "primaries"),
    [(PQ, "bt2390", 9), (PQ, "hable", 9), (HLG, "bt2390", 9), (HLG, "hable", 9), (PQ, "bt2390", 12), (PQ, "bt2390", 1)],
)
def test_colours_match_the_formulas(
    transfer: int, curve: Any, primaries: int, device: str, fake_device: torch.device
) -> None:
    video = encoded("ffv1", "gbrp12le", transfer, primaries=primaries)
    values = np.stack([(signal(number) * 4095).round() / 4095 for number in range(3)])
    chosen = fake_device if device == "fake" else torch.device("cpu")
    frames = VideoDecoder(video, tone_mapping=curve, device=chosen)[:]
    assert (frames.dtype, frames.device) == (torch.uint8, chosen)
    light = expected_light(values, transfer, curve, primaries)
    assert_close(frames, light)
    gray = frames[:, :, :32].cpu().permute(0, 2, 3, 1).double().numpy()
    assert abs(gray - 255 * light[:, :32] ** (1 / 2.4)).max() < 1.5


@pytest.mark.parametrize("device", ["cpu", "fake"])
@pytest.mark.parametrize(
    ("codec", "pixel_format", "color_range", "primaries"),
    [
        ("libx265", "yuv420p10le", 1, 9),
        ("libx265", "yuv420p10le", 2, 9),
        ("libx265", "yuv422p10le", 1, 2),  # primaries that are not stated
        ("ffv1", "yuva420p10le", 1, 9),
        ("ffv1", "yuv420p", 1, 9),  # HDR in 8 bits
        ("ffv1", "gray12le", 2, 9),
    ],
)
def test_pixel_formats_match_the_formulas(
    codec: str, pixel_format: str, color_range: int, primaries: int, device: str, fake_device: torch.device
) -> None:
    video = encoded(codec, pixel_format, PQ, color_range=color_range, primaries=primaries)
    white = {"gray12le": 4095 * 16, "yuv420p10le": 1023 * 64}  # libswscale's, with full range
    values = rgb_of(io.BytesIO(video)) / (white[pixel_format] if color_range == 2 else 255 * 256)
    chosen = fake_device if device == "fake" else torch.device("cpu")
    frames = VideoDecoder(video, tone_mapping="bt2390", device=chosen)[:]
    # For devices, formats with alpha are converted on the CPU, where pairs share chroma: edges differ by up to white.
    shares_chroma = device == "fake" and pixel_format.startswith("yuva")
    assert_close(frames, expected_light(values.clip(0, 1), PQ, "bt2390"), *((2, 1.01) if shares_chroma else ()))


MASTERED = ":hdr10=1:master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(40000000,50)"


@pytest.mark.parametrize(
    ("parameters", "peak"),
    [("", 1000), (MASTERED, 4000), (f"{MASTERED}:max-cll=600,400", 600), (f"{MASTERED}:max-cll=150,90", 203)],
)
def test_peak_comes_from_the_metadata(parameters: str, peak: float) -> None:
    video = encoded("libx265", "yuv420p10le", PQ, container="mp4", parameters=parameters)
    values = (rgb_of(io.BytesIO(video)) / (255 * 256)).clip(0, 1)
    frames = [VideoDecoder(video, tone_mapping="bt2390")[number] for number in (2, 0, 1)]  # after seeks as well
    frames = [frames[number] for number in (1, 2, 0)]
    assert_close(torch.stack(frames), expected_light(values, PQ, "bt2390", peak=peak))


MASTERED_AV1 = ":mastering-display=G(0.265,0.69)B(0.15,0.06)R(0.68,0.32)WP(0.3127,0.329)L(4000.0,0.005)"


@pytest.mark.parametrize(
    ("codec", "container", "mastered", "brightest"),
    [
        ("libx265", "hevc", MASTERED, ":max-cll=600,400"),
        ("libx265", "mpegts", MASTERED, ":max-cll=600,400"),
        ("libsvtav1", "obu", MASTERED_AV1, ":content-light=600,400"),
    ],
)
def test_peak_can_change_within_a_file(codec: str, container: str, mastered: str, brightest: str) -> None:
    parts = [("", 1000), (mastered, 4000), (mastered + brightest, 600), ("", 1000)]
    files, lights = [], []
    for parameters, peak in parts:
        files.append(encoded(codec, "yuv420p10le", PQ, container=container, parameters=parameters))
        values = (rgb_of(io.BytesIO(files[-1])) / (255 * 256)).clip(0, 1)
        lights.append(expected_light(values, PQ, "bt2390", peak=peak))
    joined, light = b"".join(files), np.concatenate(lights)
    for seed, num_threads in enumerate((None, 1, 3)):
        decoder = VideoDecoder(joined, tone_mapping="bt2390", num_ffmpeg_threads=num_threads)
        order = torch.randperm(len(light), generator=torch.Generator().manual_seed(seed)).tolist()
        frames = torch.stack([decoder[number] for number in order])
        assert_close(frames, light[order])
        assert torch.equal(decoder[:][order], frames)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize(("codec", "pixel_format"), [("libx265", "yuv420p10le"), ("libx265", "yuv420p")])
def test_sdr_frames_do_not_change(codec: str, pixel_format: str, dtype: torch.dtype) -> None:
    video = encoded(codec, pixel_format, SDR)
    expected = VideoDecoder(video, output_dtype=dtype)
    decoder = VideoDecoder(video, output_dtype=dtype, tone_mapping="bt2390")
    assert torch.equal(decoder[:], expected[:])
    assert torch.equal(decoder[1], expected[1])


def test_transfer_can_change_within_a_file() -> None:
    parts = [encoded("libx265", "yuv420p10le", transfer, container="hevc") for transfer in (SDR, PQ)]
    expected = [VideoDecoder(parts[0])[:], VideoDecoder(parts[1], tone_mapping="bt2390")[:]]
    assert torch.equal(VideoDecoder(b"".join(parts), tone_mapping="bt2390")[:], torch.cat(expected))
    decoder = VideoDecoder(b"".join(parts[::-1]), tone_mapping="bt2390")
    assert torch.equal(decoder[:], torch.cat(expected[::-1]))
    assert torch.equal(decoder[4], expected[0][1])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* is an HDR video")
@pytest.mark.parametrize("codec", ["hevc", "h264"])
@pytest.mark.parametrize("transfers", [(PQ, 2, HLG), (HLG, 2, PQ), (2, PQ, HLG, SDR)])
def test_frames_of_joined_videos_do_not_depend_on_the_order_of_access(codec: str, transfers: tuple[int, ...]) -> None:
    # After an HLG video, FFmpeg's HEVC decoder tags all frames as HLG, even after a seek.
    library = {"hevc": "libx265", "h264": "libx264"}[codec]
    for container in (codec, "mpegts"):
        files = []
        for transfer in transfers:
            primaries = 2 if transfer == 2 else 9  # 2: not stated
            files.append(encoded(library, "yuv420p10le", transfer, primaries=primaries, container=container))
        expected = torch.cat([VideoDecoder(file, tone_mapping="bt2390")[:] for file in files])
        unmapped = [VideoDecoder(file)[:] for file in files]
        for number, transfer in enumerate(transfers):
            part = slice(3 * number, 3 * number + 3)
            assert torch.equal(expected[part], unmapped[number]) == (transfer not in (PQ, HLG))
        joined = b"".join(files)
        for num_threads in (None, 1, 3):
            decoder = VideoDecoder(joined, tone_mapping="bt2390", num_ffmpeg_threads=num_threads)
            for seed in range(2):
                order = torch.randperm(len(expected), generator=torch.Generator().manual_seed(seed)).tolist()
                assert [number for number in order if not torch.equal(decoder[number], expected[number])] == []
            assert torch.equal(decoder.get_frames_at(order).data, expected[order]), container
            assert torch.equal(decoder[:], expected), container


def test_other_options_apply_to_mapped_frames(fake_device: torch.device) -> None:
    video = encoded("libx265", "yuv420p10le", HLG)
    mapped = VideoDecoder(video, tone_mapping="bt2390")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # there is nothing to warn of
        forget_warnings()
        frames = mapped[:]
        assert torch.equal(pickle.loads(pickle.dumps(mapped))[:], frames)
        approximate = VideoDecoder(video, tone_mapping="bt2390", seek_mode="approximate")
        assert torch.equal(approximate[1], frames[1])
    exact = VideoDecoder(video, tone_mapping="bt2390", output_dtype=torch.float32)[:]
    assert abs(exact * 255 - frames).max() < 0.65
    cropped = VideoDecoder(video, tone_mapping="bt2390", transforms=[CenterCrop((32, 48))])[:]
    assert torch.equal(cropped, frames[:, :, 32:64, 56:104])
    for device in (torch.device("cpu"), fake_device):
        small = VideoDecoder(video, tone_mapping="bt2390", transforms=[Resize((48, 80))], device=device)[:]
        means = frames.float().unfold(2, 2, 2).unfold(3, 2, 2).mean((-1, -2))
        assert abs(small.cpu().float() - means).mean() < 1.5


def test_rotated_frames_are_mapped(media_data: Callable[[str], Path]) -> None:
    path = media_data("rails__rotated_hdr_video.mov")
    frame = VideoDecoder(path, tone_mapping="bt2390")[39]
    values = (rgb_of(str(path), 39) / (255 * 256)).clip(0, 1)
    upright = np.rot90(values, -1, (1, 2))
    assert frame.shape[1:] == upright.shape[1:3] == (1920, 1080)
    # The frame is nearly black, where the levels of HLG change faster than the table.
    assert_close(frame[None, :, ::8, ::8], expected_light(upright[:, ::8, ::8], HLG, "bt2390"), mean=2)


def filtered(video: bytes, filters: str, *options: str) -> NDArray[np.uint8]:
    """Return RGB (N, H, W, 3) after filters of the ffmpeg program, or skip the test if it lacks them."""
    program = shutil.which("ffmpeg")
    if program is None:
        pytest.skip("the ffmpeg program is not installed")
    command = [program, "-v", "error", *options, "-i", "-", "-vf", filters, "-pix_fmt", "rgb24", "-f", "rawvideo", "-"]
    run = subprocess.run(command, input=video, capture_output=True, check=False)
    if run.returncode:
        pytest.skip(f"this ffmpeg does not run the filters: {run.stderr.decode()[-200:]}")
    return np.frombuffer(run.stdout, np.uint8).reshape(-1, HEIGHT, WIDTH, 3)


def test_hable_matches_zscale_and_tonemap() -> None:
    # For HLG, zscale applies the OOTF to each component, and not to luminance as in BT.2100. Both are equal for gray.
    for transfer, num_rows in ((PQ, HEIGHT), (HLG, 32)):
        video = encoded("ffv1", "gbrp12le", transfer)
        linear = "zscale=t=linear:npl=203,format=gbrpf32le"
        tone = f"tonemap=hable:desat=0:peak={1000 / 203},zscale=p=bt709:t=bt709:m=gbr:r=pc,format=gbrp"
        theirs = filtered(video, f"{linear},{tone}")[:, :num_rows].astype(int)
        ours = VideoDecoder(video, tone_mapping="hable", dimension_order="NHWC")[:].numpy()[:, :num_rows]
        assert abs(ours - theirs).mean() < 0.3
        assert abs((ours / 255) ** 2.4 - (theirs / 255) ** 2.4).max() < 0.015


def test_bt2390_matches_libplacebo() -> None:
    video = encoded("libx265", "yuv420p10le", PQ, container="mp4", parameters=MASTERED)
    curve = "tonemapping=bt.2390:tonemapping_param=0.5:tonemapping_mode=max:gamut_mode=clip:peak_detect=false"
    output = "colorspace=bt709:color_primaries=bt709:color_trc=bt709:range=pc:format=yuv444p10le"
    filters = f"format=yuv420p10le,hwupload,libplacebo={curve}:{output},hwdownload,format=yuv444p10le"
    theirs = filtered(video, filters, "-init_hw_device", "vulkan=vk:llvmpipe").astype(int)
    ours = VideoDecoder(video, tone_mapping="bt2390", dimension_order="NHWC")[:].numpy()
    # Its display has a black of 1/1000, so dark tones differ. The range of HDR is in the upper half.
    is_bright = theirs.min(-1) > 100
    assert is_bright.mean() > 0.2
    assert abs(ours - theirs)[is_bright].mean() < 2.5
