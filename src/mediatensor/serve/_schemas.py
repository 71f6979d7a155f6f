"""Pydantic models of the interface: the options of each call with their defaults, and the results."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_MAX_ITEMS = 1000
_PAGES = re.compile(r"[1-9][0-9]{0,6}(-([1-9][0-9]{0,6})?)?(,[1-9][0-9]{0,6}(-([1-9][0-9]{0,6})?)?){0,99}")


def _split_items(value: Any) -> Any:
    """Split text at commas, because forms send a list as one text. Return other values unchanged."""
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(",", _MAX_ITEMS)]
        return [part for part in parts if part]
    return value


def _parse_fields(value: Any) -> Any:
    """Convert the value of ``fields`` in a form, which is always text: "true" to "all", "false" and "" to None."""
    if isinstance(value, str):
        return {"true": "all", "1": "all", "on": "all", "": None, "false": None, "0": None, "none": None}.get(
            value.lower(), value
        )
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_split_items), Field(max_length=32)]
Fields = Annotated[Literal["all", "invoice", "receipt"] | None, BeforeValidator(_parse_fields)]
PageRanges = Annotated[str, Field(pattern=f"^{_PAGES.pattern}$")]
Share = Annotated[float, Field(ge=0, le=1)]
Region = Annotated[tuple[Share, Share, Share, Share], BeforeValidator(_split_items)]


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Reading(_Options):
    """Options of reading pages."""

    layout: bool = Field(False, description="Find regions: headings, lists, captions, headers and footers.")
    tables: bool = Field(False, description="Find tables, with rows, columns, spans and headers.")
    fields: Fields = Field(None, description='Find keys with their values: "all", "invoice" or "receipt".')
    languages: Names = Field((), description="Read only letters of these, such as german,english; empty for all.")
    detect_language: bool = Field(False, description="Detect the language of a page.")
    straighten: bool = Field(False, description="Turn pages upright first; boxes refer to the upright page.")
    rotated: bool = Field(False, description="Return rotated boxes for rotated text.")
    text_layer: bool = Field(False, description="Take the words that a PDF file contains.")
    dpi: float = Field(144.0, ge=36, le=600, description="Dots per inch of rendered PDF pages.")
    pages: PageRanges | None = Field(None, description="Pages to read, counted from 1: 1-3,7,10-.")
    password: str | None = Field(None, max_length=256, description="Password of a PDF file.")


class PageOptions(_Reading):
    """Options of `/ocr`."""

    answer: Literal["json", "text", "markdown", "pdf", "csv"] = Field(
        "json", description="Format of the answer: everything as JSON, the text, Markdown, a searchable PDF, or tables."
    )


class LayoutOptions(_Reading):
    """Options of `/layout`."""

    layout: bool = Field(True, description="Find regions.")
    tables: bool = Field(True, description="Find tables.")


class ProbeOptions(_Options):
    """Options of `/probe`."""

    scan: bool = Field(True, description="Read the packets of the video, so that counts and times are exact.")


class FramesOptions(_Options):
    """Options of `/video/frames`."""

    seconds: Annotated[tuple[float, ...], BeforeValidator(_split_items)] = Field(
        (), description="Times of the frames in seconds."
    )
    indices: Annotated[tuple[int, ...], BeforeValidator(_split_items)] = Field(
        (), description="Indices of the frames; negative ones count from the end."
    )
    image: Literal["png", "jpg"] = Field("png", description="Format of the images; PNG is exact.")
    max_width: int | None = Field(None, ge=16, le=4096, description="Maximum width in pixels.")
    answer: Literal["json", "zip"] = Field(
        "json", description="JSON with data URLs, or a zip file with an image for each frame."
    )


class VideoOptions(_Options):
    """Options of `/video/text`."""

    languages: Names = Field((), description="Read only letters of these, such as german,english; empty for all.")
    region: Region | None = Field(None, description="Part of the frame to read: x0,y0,x1,y1, in shares of its size.")
    answer: Literal["json", "srt", "vtt"] = Field("json", description="Format of the answer: JSON or subtitles.")


class JobOptions(LayoutOptions):
    """Options of `/jobs`, for documents and videos."""

    task: Literal["auto", "page", "video"] = Field("auto", description="Kind of the upload; auto detects it.")
    fields: Fields = Field("all", description="Find keys with their values.")
    region: Region | None = Field(None, description="Part of the frame of a video to read.")


_Box = Annotated[list[float], Field(min_length=4, max_length=4, description="Left, top, right, bottom; from 0 to 1.")]


class Problem(BaseModel):
    """An error."""

    type: str
    message: str


class ErrorAnswer(BaseModel):
    """The answer to a request that was refused or failed."""

    error: Problem


class Word(BaseModel):
    """A word, or a line, of a page."""

    text: str
    confidence: float
    box: _Box
    polygon: list[list[float]] = Field(description="Corners, from the top left one in reading direction.")
    line: int = Field(description="Number of the line on the page.")
    block: int = Field(description="Number of the block on the page.")


class Region_(BaseModel):
    """A region of a page."""

    model_config = ConfigDict(title="Region")
    type: str
    level: int = Field(description="Level of a section header, from 1; 0 for other regions.")
    box: _Box
    order: int = Field(description="Position in reading order.")
    confidence: float


class Cell(BaseModel):
    """A cell of a table."""

    text: str
    row: int
    column: int
    row_span: int
    column_span: int
    is_header: bool
    box: _Box
    confidence: float


class Table(BaseModel):
    """A table."""

    box: _Box
    num_rows: int
    num_columns: int
    cells: list[Cell]


class PageField(BaseModel):
    """A key with its value."""

    name: str = Field(description="Name of the field of an invoice or a receipt; empty for other fields.")
    key: str
    value: str
    confidence: float
    key_box: _Box | None
    value_box: _Box


class Unread(BaseModel):
    """A line that was found but could not be read."""

    box: _Box


class PageResult(BaseModel):
    """The contents of a page."""

    page_idx: int = Field(description="Index in the document, from 0.")
    width: int | None
    height: int | None
    orientation: int | None = Field(description="Rotation in degrees, clockwise.")
    language: str | None
    text: str
    words: list[Word]
    regions: list[Region_]
    tables: list[Table]
    fields: list[PageField]
    unread: list[Unread]
    error: Problem | None = Field(None, description="Reason why it could not be read.")


class PagesResult(BaseModel):
    """The contents of a document."""

    pages: list[PageResult]


class Reading(BaseModel):
    """Another reading of a text."""

    text: str
    share: float


class Track(BaseModel):
    """A piece of text in a video."""

    kind: Literal["caption", "overlay", "scene", "slide"]
    text: str
    first_frame: int
    last_frame: int
    begin_seconds: float
    end_seconds: float
    box: _Box
    confidence: float
    alternatives: list[Reading]


class Caption(BaseModel):
    """A caption."""

    begin_seconds: float
    end_seconds: float
    text: str


class VideoResult(BaseModel):
    """The text in a video."""

    name: str
    width: int
    height: int
    begin_seconds: float = Field(description="Time of the first frame, on the clock of the file.")
    end_seconds: float
    duration_seconds: float
    fps: float | None
    num_frames: int
    tracks: list[Track]
    captions: list[Caption]
    problems: list[str] = Field(description="Sentences about damage.")
    probe: dict[str, Any]


class FramePicture(BaseModel):
    """A frame."""

    index: int
    pts_seconds: float
    width: int
    height: int
    data_url: str


class FramesResult(BaseModel):
    """Frames of a video."""

    frames: list[FramePicture]


class Download(BaseModel):
    """A file that a job made."""

    name: str
    media_type: str


class JobStatus(BaseModel):
    """The state of a job."""

    id: str
    task: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: float | None
    message: str
    error: Problem | None
    name: str
    size_bytes: int
    kind: Literal["pages", "video"] | None = None
    num_pages: int | None = None
    duration_seconds: float | None = None
    fps: float | None = None
    width: int | None = None
    height: int | None = None
    downloads: list[Download]


class Limits(BaseModel):
    """The limits of the server."""

    version: str
    max_upload_bytes: int
    max_pages: int
    max_frames: int
    max_memory_bytes: int
    timeout_seconds: float
    keep_seconds: float
    num_workers: int
    examples: list[str]
