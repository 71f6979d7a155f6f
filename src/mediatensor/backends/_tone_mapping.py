"""Map HDR frames (PQ and HLG) to SDR frames of BT.709.

The steps follow Report ITU-R BT.2390. R'G'B' values are converted to light. A curve reduces the brightest component to
the range of an SDR display, and all components are scaled by the same factor. Then colours are converted to BT.709.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._engine.common.pictures import Orientation, PixelStep, ResizeStep
from .._engine.pyav.frame_edits import POINTS_PER_AXIS, ColourTable
from .._engine.pyav.opening import PRIMARIES, TRANSFERS
from .._engine.pyav.pixels import FrameConverter, frame_of_rgb, white_of
from ._plane_converter import PlaneColours, PlaneConverter, apply_steps

ToneCurve = Literal["bt2390", "hable"]

PQ, HLG = "smpte2084", "arib-std-b67"  # FFmpeg's names
#: Luminance of SDR white in cd/m²: the reference white of HDR in ITU-R BT.2408.
SDR_WHITE = 203.0
#: Peak luminance of PQ video without metadata, and the nominal peak of HLG (ITU-R BT.2100).
DEFAULT_PEAK = 1000.0
_MAX_PEAK = 10_000.0  # of PQ

_PQ_M1, _PQ_M2 = 2610 / 16384, 2523 / 32
_PQ_C1, _PQ_C2, _PQ_C3 = 3424 / 4096, 2413 / 128, 2392 / 128
_HLG_A, _HLG_B, _HLG_C = 0.17883277, 0.28466892, 0.55991073
_HLG_GAMMA = 1.2  # of the OOTF, at the nominal peak
_DISPLAY_GAMMA = 2.4  # ITU-R BT.1886
_BT2020_LUMINANCE = (0.2627, 0.6780, 0.0593)

_D65 = (0.3127, 0.3290)
# Chromaticities of red, green and blue in ITU-T H.273, of primaries with the white D65.
_CHROMATICITIES = {
    "bt709": ((0.640, 0.330), (0.300, 0.600), (0.150, 0.060)),
    "bt2020": ((0.708, 0.292), (0.170, 0.797), (0.131, 0.046)),
    "smpte432": ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060)),
}


@dataclass(frozen=True)
class ToneMapping:
    """How to map the HDR frames of a stream.

    Attributes:
        curve: ``"bt2390"`` or ``"hable"``.
        transfer: FFmpeg's name of the transfer characteristic in the header, for frames without this tag.
        primaries: FFmpeg's name of the primaries, for frames without this tag.
        bits: Number of bits per component, for frames whose format does not define it.
        peak: Peak luminance in cd/m² of PQ frames that do not state it themselves.
        maps_untagged: Whether ``transfer`` applies to decoded frames without a tag. If false, such frames are SDR.
            Pictures of GPU decoders, which cannot have the tag, always have ``transfer``.
    """

    curve: ToneCurve
    transfer: str | None = None
    primaries: str | None = None
    bits: int = 10
    peak: float = DEFAULT_PEAK
    maps_untagged: bool = True


@dataclass(frozen=True)
class Colours:
    """The colours of HDR frames, and how to map them."""

    transfer: str
    primaries: str
    white: float  # the value of R'G'B' in [0, 1] to which libswscale converts white
    peak: float
    curve: ToneCurve


def map_light(signal: Tensor, colours: Colours) -> Tensor:
    """Convert R'G'B' of HDR (..., 3) to linear RGB of BT.709, with SDR white at 1. Colours outside BT.709 are kept."""
    signal = (signal / colours.white).clamp_(0, 1)
    light = _hlg_light(signal) if colours.transfer == HLG else _pq_light(signal)
    light /= SDR_WHITE
    brightest = light.amax(-1, keepdim=True).clamp_(min=1e-6)
    peak = min(max(colours.peak / SDR_WHITE, 1.0), _MAX_PEAK / SDR_WHITE)
    mapped = _hable(brightest, peak) if colours.curve == "hable" else _bt2390(brightest, peak)
    light *= mapped.div_(brightest)
    if colours.primaries == "bt709":
        return light
    red, green, blue = light.unbind(-1)
    # CUDA may round a matrix product to 10 bits.
    rows = _matrix_to_bt709(colours.primaries).tolist()
    return torch.stack([red * row[0] + green * row[1] + blue * row[2] for row in rows], dim=-1)


def encode(light: Tensor) -> Tensor:
    """Convert linear RGB to R'G'B' in [0, 1] for a display of ITU-R BT.1886; clip colours outside [0, 1]."""
    return light.clamp(0, 1).pow_(1 / _DISPLAY_GAMMA)


def _pq_light(signal: Tensor) -> Tensor:
    """Convert PQ values in [0, 1] to cd/m² (ITU-R BT.2100, table 4)."""
    power = signal ** (1 / _PQ_M2)
    return ((power - _PQ_C1).clamp_(min=0) / (_PQ_C2 - _PQ_C3 * power)) ** (1 / _PQ_M1) * _MAX_PEAK


def _pq_signal(light: Any) -> Any:
    power = (light / _MAX_PEAK) ** _PQ_M1
    return ((_PQ_C1 + _PQ_C2 * power) / (1 + _PQ_C3 * power)) ** _PQ_M2


def _hlg_light(signal: Tensor) -> Tensor:
    """Convert HLG values in [0, 1] to the cd/m² of a display of the nominal peak (ITU-R BT.2100, table 5)."""
    scene = torch.where(signal <= 0.5, signal**2 / 3, (((signal - _HLG_C) / _HLG_A).exp() + _HLG_B) / 12)
    red, green, blue = (scene[..., channel] * weight for channel, weight in enumerate(_BT2020_LUMINANCE))
    return scene * (red + green + blue).pow(_HLG_GAMMA - 1).unsqueeze(-1) * DEFAULT_PEAK


def _bt2390(light: Tensor, peak: float) -> Tensor:
    """Reduce light from [0, peak] to [0, 1] with the EETF of ITU-R BT.2390-11, section 5.4.1, without a black lift."""
    highest_in = _pq_signal(peak * SDR_WHITE)
    highest = _pq_signal(SDR_WHITE) / highest_in
    knee = 1.5 * highest - 0.5
    if knee >= 1:  # the peak is SDR white
        return light.clamp(max=1)
    signal = (_pq_signal(light * SDR_WHITE) / highest_in).clamp_(max=1)
    t = (signal - knee) / (1 - knee)
    t2, t3 = t**2, t**3
    rolled = (2 * t3 - 3 * t2 + 1) * knee + (t3 - 2 * t2 + t) * (1 - knee) + (3 * t2 - 2 * t3) * highest
    return torch.where(signal < knee, light, _pq_light(rolled * highest_in) / SDR_WHITE)


def _hable(light: Tensor, peak: float) -> Tensor:
    """Reduce light from [0, peak] to [0, 1] with John Hable's filmic curve, with the constants of FFmpeg's tonemap."""

    def filmic(x: Any) -> Any:
        return (x * (0.15 * x + 0.05) + 0.004) / (x * (0.15 * x + 0.5) + 0.06) - 0.004 / 0.06

    return cast(Tensor, filmic(light) / filmic(peak))


@lru_cache(maxsize=8)
def _matrix_to_bt709(primaries: str) -> NDArray[np.float64]:
    """Return the matrix that converts linear RGB of other primaries to linear RGB of BT.709."""
    return np.asarray(np.linalg.inv(_matrix_to_xyz("bt709")) @ _matrix_to_xyz(primaries))


def _matrix_to_xyz(primaries: str) -> NDArray[np.float64]:
    columns = np.array([(x / y, 1, (1 - x - y) / y) for x, y in (*_CHROMATICITIES[primaries], _D65)]).T
    return np.asarray(columns[:, :3] * np.linalg.solve(columns[:, :3], columns[:, 3]))


class ToneMappingConverter:
    """A `PictureConverter` that converts HDR frames to SDR, and passes SDR frames to ``plain``.

    On the CPU, colours are looked up in a table. On devices, they are computed for each pixel, from the result of
    ``make_exact``, a converter to float32 without steps.
    """

    def __init__(
        self,
        plain: Any,
        make_exact: Callable[[], Any],
        mapping: ToneMapping,
        device: torch.device,
        steps: tuple[PixelStep, ...],
        *,
        is_float: bool,
    ) -> None:
        # All methods except `write` are the same as for SDR frames.
        self.orientation_of, self.output_size = plain.orientation_of, plain.output_size
        self.empty, self.here = plain.empty, plain.here
        self._plain = plain
        self._mapping = mapping
        self._steps = steps
        self._is_float = is_float
        self._tables: dict[Colours, ColourTable] = {}
        self._uses_table = isinstance(plain, FrameConverter)
        if self._uses_table:
            self.components_of = plain.components_of
        else:
            self._exact = make_exact()
            if isinstance(self._exact, PlaneConverter):
                self._exact.interpolate_chroma()
            self._colours = PlaneColours(device, is_float=is_float)

    def write(self, picture: Any, orientation: Orientation, out: Any) -> None:
        colours = self._colours_of(picture)
        if colours is None:
            self._plain.write(picture, orientation, out)
        elif self._uses_table:
            self._write_by_table(picture, colours, orientation, out)
        else:
            self._write_tensor(picture, colours, orientation, out)

    def _colours_of(self, picture: Any) -> Colours | None:
        """Return the colours of an HDR picture; ``None`` if it is not HDR."""
        mapping = self._mapping
        stated = getattr(picture, "color_trc", None)
        default = mapping.transfer if stated is None or mapping.maps_untagged else None
        transfer = default if stated is None else TRANSFERS.get(int(stated), default)
        if transfer not in (PQ, HLG):
            return None
        primaries = PRIMARIES.get(int(getattr(picture, "color_primaries", 0)), mapping.primaries)
        if primaries not in _CHROMATICITIES:
            primaries = "bt2020"
        peak = DEFAULT_PEAK
        if transfer == PQ:
            stated_peak = getattr(picture, "opaque", None)  # of its coded sequence, by `FrameColours`
            peak = mapping.peak if stated_peak is None else stated_peak[0] or mapping.peak
        return Colours(transfer, primaries, white_of(picture, mapping.bits), peak, mapping.curve)

    def _write_by_table(self, picture: Any, colours: Colours, orientation: Orientation, out: NDArray[Any]) -> None:
        if colours not in self._tables:
            self._tables[colours] = ColourTable(_table_of(colours))
        components = self._tables[colours].map(picture)
        size = components[0].shape
        is_direct = not self._steps and out.shape[:2] == orientation.size(*size)
        rgb = orientation.undo(out) if is_direct else np.empty((*size, 3), out.dtype)
        for channel, light in enumerate(components):
            if self._is_float:
                rgb[..., channel] = encode(torch.tensor(light, device="cpu")).numpy()
            else:
                _write_levels(light, rgb[..., channel])
        if not is_direct:
            self._plain.write(frame_of_rgb(rgb), orientation, out)

    def _write_tensor(self, picture: Any, colours: Colours, orientation: Orientation, out: Tensor) -> None:
        exact = self._exact
        signal = exact.empty(1, *exact.output_size(picture, orientation))[0]
        exact.write(picture, orientation, signal)
        pixels = encode(map_light(signal, colours))
        if not self._is_float:
            pixels = pixels.mul_(255).add_(0.5).to(torch.uint8)
        steps, size = self._steps, out.shape[:2]
        if size != self.output_size(picture, orientation):
            steps = (*steps, ResizeStep(*size))
        apply_steps(self._colours, steps, pixels, out)


@lru_cache(maxsize=8)
def _table_of(colours: Colours) -> NDArray[np.float32]:
    """Return the table of `map_light` for `ColourTable`.

    Its values are linear light, because R'G'B' changes steeply between points where a component becomes 0.
    """
    points = torch.linspace(0, 1, POINTS_PER_AXIS, dtype=torch.float64, device="cpu")
    blue, green, red = torch.meshgrid(points, points, points, indexing="ij")
    return np.asarray(map_light(torch.stack((red, green, blue), dim=-1), colours).float().numpy())


def _write_levels(light: NDArray[np.float32], out: NDArray[np.uint8]) -> None:
    levels, bits = _levels(), light.view(np.uint32)
    for top in range(0, len(bits), _ROWS_PER_BLOCK):
        rows = slice(top, top + _ROWS_PER_BLOCK)
        out[rows] = levels.take(bits[rows] >> _DROPPED_BITS, mode="clip")


# NumPy takes five times as long to compute powers as to look them up by the leading bits of a float32. Without these
# low bits, a level of 255 is within 0.1 of its value.
_DROPPED_BITS = 14
_ROWS_PER_BLOCK = 16  # whose indices fit into a cache of the processor


@lru_cache(maxsize=1)
def _levels() -> NDArray[np.uint8]:
    """Return the level of the float32 numbers whose leading bits are the index."""
    middle = (1 << (_DROPPED_BITS - 1)) + (np.arange(1 << (32 - _DROPPED_BITS), dtype=np.uint32) << _DROPPED_BITS)
    light = np.nan_to_num(middle.view(np.float32), nan=0.0).astype(np.float64)
    return (encode(torch.from_numpy(light)) * 255).round().to(torch.uint8).numpy()
