"""Names of channel layouts, as FFmpeg prints them, by the channel mask of a WAV file. Pure."""

from __future__ import annotations

__all__ = ["layout_name"]

# The loudspeakers of the mask's bits, from the lowest on.
# fmt: off
_SPEAKERS = ("FL", "FR", "FC", "LFE", "BL", "BR", "FLC", "FRC", "BC", "SL", "SR", "TC", "TFL", "TFC", "TFR", "TBL",
             "TBC", "TBR")
_NAMES = {
    "FC": "mono", "FL+FR": "stereo", "FL+FR+LFE": "2.1", "FL+FR+FC": "3.0", "FL+FR+BC": "3.0(back)",
    "FL+FR+FC+BC": "4.0", "FL+FR+BL+BR": "quad", "FL+FR+SL+SR": "quad(side)", "FL+FR+FC+LFE": "3.1",
    "FL+FR+FC+BL+BR": "5.0", "FL+FR+FC+SL+SR": "5.0(side)", "FL+FR+FC+LFE+BC": "4.1", "FL+FR+FC+LFE+BL+BR": "5.1",
    "FL+FR+FC+LFE+SL+SR": "5.1(side)", "FL+FR+FC+BC+SL+SR": "6.0", "FL+FR+FLC+FRC+SL+SR": "6.0(front)",
    "FL+FR+FC+LFE+TFL+TFR": "3.1.2", "FL+FR+FC+BL+BR+BC": "hexagonal", "FL+FR+FC+LFE+BC+SL+SR": "6.1",
    "FL+FR+FC+LFE+BL+BR+BC": "6.1(back)", "FL+FR+LFE+FLC+FRC+SL+SR": "6.1(front)", "FL+FR+FC+BL+BR+SL+SR": "7.0",
    "FL+FR+FC+FLC+FRC+SL+SR": "7.0(front)", "FL+FR+FC+LFE+BL+BR+SL+SR": "7.1",
    "FL+FR+FC+LFE+BL+BR+FLC+FRC": "7.1(wide)", "FL+FR+FC+LFE+FLC+FRC+SL+SR": "7.1(wide-side)",
    "FL+FR+FC+LFE+SL+SR+TFL+TFR": "5.1.2", "FL+FR+FC+LFE+BL+BR+TFL+TFR": "5.1.2(back)",
    "FL+FR+FC+BL+BR+BC+SL+SR": "octagonal", "FL+FR+BL+BR+TFL+TFR+TBL+TBR": "cube",
    "FL+FR+FC+LFE+SL+SR+TFL+TFR+TBL+TBR": "5.1.4", "FL+FR+FC+LFE+BL+BR+SL+SR+TFL+TFR": "7.1.2",
}
# fmt: on


def layout_name(mask: int, num_channels: int) -> str | None:
    """The name of a layout; ``None`` if the mask does not say where all the channels are.

    >>> layout_name(0b11, 2), layout_name(0b110000, 2), layout_name(0, 2)
    ('stereo', '2 channels (BL+BR)', None)
    """
    if mask.bit_count() != num_channels or mask >> len(_SPEAKERS):
        return None
    speakers = "+".join(name for bit, name in enumerate(_SPEAKERS) if mask >> bit & 1)
    return _NAMES.get(speakers, f"{num_channels} channels ({speakers})")
