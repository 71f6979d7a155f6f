"""`Letterbox`, which scales and pads images, and `LetterboxPlacement`, the position of the image in the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .._engine.common.checks import shown, whole_number
from .._engine.common.pictures import PadStep, PixelStep, ResizeStep
from ..errors import InvalidArgumentError
from ._decoder_transforms import DecoderTransform
from .functional import check_fill, check_size


@dataclass(frozen=True)
class LetterboxPlacement:
    """Position and scale of an image in the result of a `Letterbox`.

    Attributes:
        top: First row of the result that shows the image.
        left: First column of the result that shows the image.
        height: Number of rows of the result that show the image.
        width: Number of columns of the result that show the image.
        scale_y: ``height`` divided by the height of the image.
        scale_x: ``width`` divided by the width of the image. It may differ slightly from ``scale_y``, because
            ``height`` and ``width`` are rounded to whole pixels.

    Example:
        >>> import torch
        >>> from mediatensor.transforms import Letterbox
        >>> placement = Letterbox((224, 224)).place(360, 640)
        >>> placement
        LetterboxPlacement(top=49, left=0, height=126, width=224, scale_y=0.35, scale_x=0.35)
        >>> placement.restore_boxes(torch.tensor([0.0, 49.0, 112.0, 175.0]))
        tensor([  0.,   0., 320., 360.])
    """

    top: int
    left: int
    height: int
    width: int
    scale_y: float
    scale_x: float

    def move_boxes(self, boxes: Tensor) -> Tensor:
        """Convert boxes on the original image to boxes on the letterboxed image.

        Args:
            boxes: Boxes (..., 4) as (left, top, right, bottom), or points (..., 2) as (x, y), in pixels from the upper
                left corner.

        Returns:
            Boxes or points as a float tensor of the same shape.

        Raises:
            InvalidArgumentError: if ``boxes`` is not a tensor of this shape.

        Example:
            >>> import torch
            >>> from mediatensor.transforms import Letterbox
            >>> Letterbox((224, 224)).place(360, 640).move_boxes(torch.tensor([0, 0, 320, 360]))
            tensor([  0.,  49., 112., 175.])
        """
        boxes, scale, offset = self._as_factors(boxes)
        return boxes * scale + offset

    def restore_boxes(self, boxes: Tensor) -> Tensor:
        """Convert boxes on the letterboxed image to boxes on the original image.

        A box in the padding lies outside the original image, so its coordinates can be negative. The argument, the
        result and errors are as in `move_boxes`.

        Example:
            >>> import torch
            >>> from mediatensor.transforms import Letterbox
            >>> Letterbox((224, 224)).place(360, 640).restore_boxes(torch.tensor([0, 49, 112, 175]))
            tensor([  0.,   0., 320., 360.])
        """
        boxes, scale, offset = self._as_factors(boxes)
        return (boxes - offset) / scale

    def _as_factors(self, boxes: object) -> tuple[Tensor, Tensor, Tensor]:
        if not isinstance(boxes, Tensor) or boxes.ndim < 1 or boxes.shape[-1] not in (2, 4):
            raise InvalidArgumentError(
                "boxes must be a tensor (..., 4) of left, top, right, bottom, or a tensor (..., 2) of x, y "
                f"(got {shown(boxes)})."
            )
        boxes = boxes if boxes.is_floating_point() else boxes.to(torch.get_default_dtype())
        num_points = boxes.shape[-1] // 2
        scale, offset = ([self.scale_x, self.scale_y] * num_points, [self.left, self.top] * num_points)
        return boxes, boxes.new_tensor(scale), boxes.new_tensor(offset)


class Letterbox(DecoderTransform):
    """Scale images to fit into a size, keep their aspect ratio, and pad the rest with one colour.

    The image is centred. If the padding of an axis is an odd number of pixels, the left or upper part is one pixel
    smaller. Size and position are the same as in the ``LetterBox`` of YOLO (Ultralytics), which rounds to the nearest
    pixel. No side becomes shorter than a pixel. Small images are enlarged. Pixels are scaled like in `Resize`, with
    antialiasing, which YOLO does not use.

    In a decoder, the size and position of the scaled image are computed once, from the first frame. If later frames
    have another size, they are scaled to the same size and position.

    Args:
        size: (height, width) of the result.
        fill: Value of the padding: one number, or one for each channel, in the value range of the images (0 to 255 for
            uint8, 0 to 1 for float32 frames of a decoder and after `ToFloat`).
        fast: Whether to scale frames and convert them to RGB in one pass; see `Resize`.

    Raises:
        InvalidArgumentError: if ``size`` is not a pair of positive ints, or ``fill`` is not finite. A call or a
            decoder raises it if ``fill`` has a wrong number of values, or values that the images cannot have.

    Example:
        >>> import torch
        >>> from mediatensor.transforms import Letterbox
        >>> letterbox = Letterbox((224, 224), fill=114)
        >>> letterbox(torch.zeros(8, 3, 360, 640, dtype=torch.uint8))[0, 0, 47:51, 0]
        tensor([114, 114,   0,   0], dtype=torch.uint8)
        >>> letterbox.mask(360, 640)[47:51, 0]
        tensor([False, False,  True,  True])
    """

    is_random = False
    _shown = ("size", "fill", "fast")

    def __init__(self, size: Sequence[int], *, fill: float | Sequence[float] = 0, fast: bool = False) -> None:
        super().__init__()
        self.size = check_size("Letterbox", size)
        self.fill = check_fill(fill)
        self.fast = bool(fast)

    def resolve(self, height: int, width: int) -> tuple[PixelStep, ...]:
        placement = self.place(height, width)
        return (
            ResizeStep(placement.height, placement.width, fast=self.fast),
            PadStep(placement.top, placement.left, *self.size, self.fill),
        )

    def place(self, height: int, width: int) -> LetterboxPlacement:
        """Return where an image of size (``height``, ``width``) lies in the result, and how much it is scaled.

        For a video, ``height`` and ``width`` are the size of its frames after rotation, as in the metadata of
        `VideoDecoder`.

        Raises:
            InvalidArgumentError: if ``height`` or ``width`` is not a positive int.

        Example:
            >>> from mediatensor.transforms import Letterbox
            >>> Letterbox((224, 224)).place(100, 50)
            LetterboxPlacement(top=0, left=56, height=224, width=112, scale_y=2.24, scale_x=2.24)
        """
        height, width = (
            whole_number(name, value, at_least=1) for name, value in (("height", height), ("width", width))
        )
        scale = min(self.size[0] / height, self.size[1] / width)
        new_height, new_width = max(1, round(height * scale)), max(1, round(width * scale))
        top, left = (self.size[0] - new_height) // 2, (self.size[1] - new_width) // 2
        return LetterboxPlacement(top, left, new_height, new_width, new_height / height, new_width / width)

    def mask(self, height: int, width: int) -> Tensor:
        """Return a mask that shows where an image of size (``height``, ``width``) lies in the result.

        Returns:
            Bool tensor of shape ``size`` on the CPU: True on the image, False on the padding.

        Raises:
            InvalidArgumentError: if ``height`` or ``width`` is not a positive int.

        Example:
            >>> from mediatensor.transforms import Letterbox
            >>> Letterbox((2, 4)).mask(100, 100).int()
            tensor([[0, 1, 1, 0],
                    [0, 1, 1, 0]], dtype=torch.int32)
        """
        placement = self.place(height, width)
        mask = torch.zeros(self.size, dtype=torch.bool, device="cpu")
        mask[placement.top :][: placement.height, placement.left :][:, : placement.width] = True
        return mask
