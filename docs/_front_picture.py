"""Draw ``docs/front.png``, the picture of the README: a contact sheet next to the words and the
regions of a page, above a time line.

    python docs/_front_picture.py

All are drawn by the library, from a video and a page that are made here; the time line has the captions and the logo
of the video, as they were read in its pictures.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from mediatensor.cli._demo import draw_page
from mediatensor.cli._sheet import SheetOptions, write_sheet
from mediatensor.encoders import VideoEncoder
from mediatensor.ocr import ocr_predictor, video_text_predictor
from mediatensor.ocr.utils import overlay

HEIGHT, WIDTH, NUM_FRAMES, FPS = 360, 640, 48, 12
NUM_ITERATIONS = 160
PAGE_WIDTH = 600
TIMELINE_SCALE = 1.6
#: First frame, the frame after the last one, and the caption.
CAPTIONS = (
    (3, 15, "Ask for any frame"),
    (15, 29, "and get exactly that one,"),
    (34, 47, "with the words on it."),
)
#: The target of the zoom, and the factor of each frame.
CENTRE, STEP = complex(-0.743643887, 0.131825904), 0.84


def zoom(scale: float) -> Tensor:
    """The Mandelbrot set around `CENTRE`, uint8 (3, H, W): colours show how soon a point escapes."""
    rows = torch.linspace(-scale, scale, HEIGHT, dtype=torch.float64)
    columns = torch.linspace(-scale, scale, WIDTH, dtype=torch.float64) * WIDTH / HEIGHT
    points = torch.complex(columns.expand(HEIGHT, WIDTH), rows[:, None].expand(HEIGHT, WIDTH)) + CENTRE
    values, escaped = torch.zeros_like(points), torch.full((HEIGHT, WIDTH), float(NUM_ITERATIONS))
    for i in range(NUM_ITERATIONS):
        values = values * values + points
        sizes = values.abs()
        leaves = (sizes > 8) & (escaped == NUM_ITERATIONS)
        escaped[leaves] = (i + 1 - torch.log2(torch.log(sizes[leaves]))).float()
        values[sizes > 8] = 0
    phase = escaped[None] * 0.09 + torch.tensor([0.0, 0.9, 1.8])[:, None, None]
    shade = 0.5 - 0.5 * torch.cos(phase)
    return (255 * shade * (escaped < NUM_ITERATIONS)).to(torch.uint8)


def with_text(frame: Tensor, number: int) -> Tensor:
    """A frame with its caption and a logo."""
    picture = Image.fromarray(frame.permute(1, 2, 0).numpy())
    draw = ImageDraw.Draw(picture)
    texts = [((WIDTH - 24, 40), "rs", 26, "ZOOM TV")]
    texts += [((WIDTH / 2, HEIGHT - 32), "ms", 42, text) for first, end, text in CAPTIONS if first <= number < end]
    for place, anchor, size, text in texts:
        font = ImageFont.load_default(size)
        draw.text(place, text, fill="white", font=font, anchor=anchor, stroke_width=3, stroke_fill="black")
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        video, page = Path(folder) / "zoom.mp4", Path(folder) / "page.png"
        frames = torch.stack([with_text(zoom(1.3 * STEP**number), number) for number in range(NUM_FRAMES)])
        VideoEncoder(frames, frame_rate=FPS).to_file(video, crf=18, extra_options={"g": 16})
        write_sheet(str(video), Path(folder) / "sheet.png", SheetOptions(num_frames=9, tile_width=240))
        draw_page()[0].save(page)
        sheet = Image.open(Path(folder) / "sheet.png").convert("RGB")
        # The page with its words above the page with its regions, and the cells of its table.
        pages = [
            Image.fromarray(overlay(ocr_predictor(pretrained=True, **options)(page).pages[0], text="none"))
            for options in ({}, {"detect_layout": True, "detect_tables": True})
        ]
        reading = video_text_predictor(pretrained=True)(video)
    found = [(track.first_frame, track.last_frame + 1, track.text) for track in reading.captions]
    if found != list(CAPTIONS):
        raise SystemExit(f"The timeline would not show the captions: {found}")
    size = (PAGE_WIDTH, round(PAGE_WIDTH * pages[0].height / pages[0].width))
    sheet = sheet.resize((round(sheet.width * 2 * size[1] / sheet.height), 2 * size[1]), Image.Resampling.LANCZOS)
    width = sheet.width + size[0]
    timeline = Image.fromarray(reading.synthesize_timeline(width=round(width / TIMELINE_SCALE)))
    timeline = timeline.resize((width, round(width * timeline.height / timeline.width)), Image.Resampling.LANCZOS)
    picture = Image.new("RGB", (width, sheet.height + timeline.height), "white")
    picture.paste(sheet, (0, 0))
    picture.paste(timeline, (0, sheet.height))
    for number, drawn in enumerate(pages):
        picture.paste(drawn.resize(size, Image.Resampling.LANCZOS), (sheet.width, number * size[1]))
    picture.quantize(192, dither=Image.Dither.NONE).save(Path(__file__).parent / "front.png", optimize=True)


if __name__ == "__main__":
    main()
