"""Generate default files for the examples: a talk with slides and audio, a film with captions, a page."""

from __future__ import annotations

from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from mediatensor.encoders import Encoder, PngEncoder

SLIDES = (
    ("Tides of the North Sea", "a talk in four slides"),
    ("High water at 04:12", "Low water at 10:31"),
    ("The moon pulls twice a day", "and the sun helps a little"),
    ("Thank you for watching", "Questions?"),
)
GROUNDS = ("#103a5c", "#1c5d4a", "#5a3a63", "#6b4a1f")
PAGE = (
    "Harbour office",
    "",
    "Berth 14, two nights     38.00",
    "Electricity             6.50",
    "Water                   2.20",
)
REPORT = (
    "Ferries to the islands",
    (
        "The three lines to the islands ran on all days but nine. Fog and two storms kept the boats in the harbour; "
        "on every other day they left on time."
    ),
    "1 Passengers",
    (
        "Most people travel between May and September. The smallest island has the fewest beds, and so the fewest "
        "guests, but its line is the busiest on Sundays."
    ),
    "Table 1. Passengers of each line, in thousands",
    "2 Plans",
    "For the next year the office plans",
    "- a second boat on Sundays",
    "- tickets that are valid on all lines",
    "- a warm room on the pier",
)
REPORT_TABLE = (
    ("Line", "Spring", "Summer", "Autumn"),
    ("Long Sand", "41", "118", "37"),
    ("Gull Rock", "22", "96", "19"),
    ("Old Light", "8", "61", "7"),
)
CAPTIONS = (
    (0.6, 2.4, ("The tide comes in.",)),
    (2.4, 4.6, ("Whoever walks out to the islands", "has to be back by noon.")),
    (5.2, 7.4, ("At night, the harbour sleeps.",)),
)
FLASH_RATE = 20
FLASHES = (
    (16, 23, "The first flash."),
    (36, 43, "The second one."),
    (48, 52, "A short one."),
    (76, 86, "The fourth flash."),
    (96, 102, "The last one."),
)
LOGO, FILM_SECONDS = "TIDE TV", 8
WIDTH, HEIGHT, FRAME_RATE, SECONDS_PER_SLIDE = 480, 270, 25, 3
SAMPLE_RATE = 16_000


def talk(folder: Path) -> Path:
    """Write ``talk.mp4``, 12 seconds: four slides, a sun that moves, a bar that shows the time, a tone that rises."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "talk.mp4"
    encoder = Encoder()
    video = encoder.add_video(height=HEIGHT, width=WIDTH, frame_rate=FRAME_RATE, codec="libx264", preset="ultrafast")
    audio = encoder.add_audio(sample_rate=SAMPLE_RATE, num_channels=1, codec="aac")
    with encoder.open_file(path):
        for number, lines in enumerate(SLIDES):
            video.add_frames(slide(lines, number))
            audio.add_samples(tone(number))
    return path


def slide(lines: tuple[str, ...], number: int) -> Tensor:
    """The frames of a slide, uint8 (75, 3, 270, 480)."""
    picture = Image.new("RGB", (WIDTH, HEIGHT), GROUNDS[number])
    draw = ImageDraw.Draw(picture)
    for line, (text, size) in enumerate(zip(lines, (32, 24), strict=True)):
        draw.text((30, 150 + 45 * line), text, fill="white", font=ImageFont.load_default(size))
    rows, columns = torch.arange(float(HEIGHT))[:, None], torch.arange(float(WIDTH))
    frames = pixels(picture).repeat(FRAME_RATE * SECONDS_PER_SLIDE, 1, 1, 1)
    for frame, image in enumerate(frames):
        share = (number + frame / len(frames)) / len(SLIDES)
        image[:, (rows - 80).hypot(columns - (300 + 160 * share)) < 30] = torch.tensor(
            [[250], [220], [140]], dtype=torch.uint8
        )
        image[:, HEIGHT - 12 :, : round(WIDTH * share)] = torch.tensor([240, 190, 60])[:, None, None]
    return frames


def film(folder: Path) -> Path:
    """Write ``film.mp4``, 8 seconds: a sea with waves that roll, a logo in its corner, and three captions."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "film.mp4"
    encoder = Encoder()
    video = encoder.add_video(height=HEIGHT, width=WIDTH, frame_rate=FRAME_RATE, codec="libx264", preset="ultrafast")
    with encoder.open_file(path):
        for number in range(FRAME_RATE * FILM_SECONDS):
            video.add_frames(with_text(sea(number), number / FRAME_RATE)[None])
    return path


def flashes(folder: Path) -> Path:
    """Write ``flashes.mp4``, 6 seconds, and its captions ``flashes.srt``: flashes, beeps and texts of the same times.

    Each picture says its time. H.264 has B frames and AAC a delay, so that neither is stored in the order of the times.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "flashes.mp4"
    encoder = Encoder()
    video = encoder.add_video(height=160, width=96, frame_rate=FLASH_RATE, codec="libx264", preset="veryfast")
    audio = encoder.add_audio(sample_rate=44_100, num_channels=1, codec="aac")
    seconds = torch.arange(44_100 * 6) / 44_100
    wave = torch.zeros_like(seconds)
    for number, (first, stop, _) in enumerate(FLASHES):
        is_heard = (seconds >= first / FLASH_RATE) & (seconds < stop / FLASH_RATE)
        wave[is_heard] = 0.6 * torch.sin(2 * torch.pi * 330 * 1.25**number * seconds[is_heard])
    with encoder.open_file(path):
        for number in range(FLASH_RATE * 6):
            is_flash = any(first <= number < stop for first, stop, _ in FLASHES)
            picture = Image.new("RGB", (96, 160), "#fff3c4" if is_flash else "#103a5c")
            place, colour, font = (48, 80), "black" if is_flash else "white", ImageFont.load_default(38)
            ImageDraw.Draw(picture).text(place, f"{number / FLASH_RATE:.2f}", colour, font, anchor="mm")
            video.add_frames(pixels(picture)[None])
        audio.add_samples(wave[None])
    texts = [f"{1 + n}\n{_clock(first)} --> {_clock(stop)}\n{text}\n" for n, (first, stop, text) in enumerate(FLASHES)]
    path.with_suffix(".srt").write_text("\n".join(texts))
    return path


def _clock(frame: int) -> str:
    return f"00:00:{frame // FLASH_RATE:02},{frame % FLASH_RATE * 1000 // FLASH_RATE:03}"


def sea(number: int) -> Image.Image:
    """A frame of the film, without text."""
    rows, columns = torch.arange(float(HEIGHT))[:, None], torch.arange(float(WIDTH))
    depth = (rows / HEIGHT).clamp(min=0.35)
    waves = torch.sin(columns / (30 * depth) + number / 6) * torch.sin(rows / (12 * depth) - number / 9)
    water = torch.tensor([40.0, 105.0, 130.0])[:, None, None] + 45 * waves
    sky = torch.tensor([235.0, 170.0, 120.0])[:, None, None] - 0.6 * rows
    picture = torch.where(rows < 0.35 * HEIGHT, sky, water).clamp(0, 255).to(torch.uint8)
    return Image.fromarray(picture.permute(1, 2, 0).numpy())


def with_text(picture: Image.Image, seconds: float) -> Tensor:
    """A frame with the logo and with the caption of its time, uint8 (3, 270, 480)."""
    draw = ImageDraw.Draw(picture)
    draw.text((WIDTH - 16, 16), LOGO, fill="white", font=ImageFont.load_default(18), anchor="ra")
    for start, end, lines in CAPTIONS:
        if start <= seconds < end:
            for line, text in enumerate(reversed(lines)):
                place, font = (WIDTH / 2, HEIGHT - 18 - 28 * line), ImageFont.load_default(24)
                draw.text(place, text, fill="white", font=font, anchor="ms", stroke_width=2, stroke_fill="black")
    return pixels(picture)


def tone(number: int) -> Tensor:
    """The sound of a slide: a tone with its overtones, a third higher on each, float32 (1, 48000)."""
    seconds = torch.arange(SAMPLE_RATE * SECONDS_PER_SLIDE) / SAMPLE_RATE
    frequency = 220 * 1.25**number
    waves = sum(torch.sin(2 * torch.pi * frequency * overtone * seconds) / overtone for overtone in (1, 2, 3))
    return 0.3 * (waves * torch.exp(-1.5 * (seconds % 1.0)))[None]


def page(folder: Path) -> Path:
    """Write ``page.png``, a bill."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "page.png"
    picture = Image.new("RGB", (620, 340), "white")
    draw = ImageDraw.Draw(picture)
    draw.line((40, 100, 580, 100), fill="black", width=2)
    for number, line in enumerate(PAGE):
        item, _, price = line.rpartition("  ")
        font = ImageFont.load_default(24 if number else 34)
        draw.text((40, 45 + 50 * number), (item or line).strip(), fill="black", font=font)
        if item:
            draw.text((580, 45 + 50 * number), price.strip(), fill="black", font=font, anchor="ra")
    PngEncoder(pixels(picture)).to_file(path)
    return path


def report(folder: Path) -> Path:
    """Write ``report.png``: a page with a title, sections, a table and a list."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.png"
    picture = Image.new("RGB", (1000, 1240), "white")
    draw = ImageDraw.Draw(picture)
    sizes = {"Ferries": 46, "1 Pass": 30, "2 Plan": 30, "Table ": 19}
    draw.text((80, 40), "Harbour office", "black", ImageFont.load_default(17))
    top = 100
    for paragraph in REPORT:
        font = ImageFont.load_default(next((size for begin, size in sizes.items() if paragraph.startswith(begin)), 23))
        for line in _lines(paragraph, font, 840):
            draw.text((110 if paragraph.startswith("- ") else 80, top), line, "black", font)
            top += round(font.size * 1.4)
        top += 8 if paragraph.startswith("- ") else 24
        if paragraph.startswith("Table "):
            top = _draw_table(draw, top)
    draw.text((500, 1195), "3", "black", ImageFont.load_default(17), anchor="ma")
    PngEncoder(pixels(picture)).to_file(path)
    return path


def _lines(paragraph: str, font: ImageFont.FreeTypeFont, width: float) -> list[str]:
    lines = [""]
    for word in paragraph.split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _draw_table(draw: ImageDraw.ImageDraw, top: int) -> int:
    font = ImageFont.load_default(21)
    for row, texts in enumerate(REPORT_TABLE):
        for column, text in enumerate(texts):
            draw.rectangle(
                (80 + 210 * column, top + 46 * row, 290 + 210 * column, top + 46 * row + 46), outline="black"
            )
            draw.text((95 + 210 * column, top + 46 * row + 11), text, "black", font)
    return top + 46 * len(REPORT_TABLE) + 34


def pixels(picture: Image.Image) -> Tensor:
    """A picture of Pillow's as uint8 (3, H, W)."""
    return (
        torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).view(*picture.size[::-1], 3).permute(2, 0, 1)
    )
