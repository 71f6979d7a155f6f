"""Geometry of boxes and pages, metrics, and pictures of what was read. It uses no other package of `ocr`.

The names that are not in ``__all__`` are for other packages of this library only.
"""

from . import common_types, fonts, geometry, metrics, reconstitution, visualization
from ._drawing import as_picture as as_picture
from ._drawing import font_for as font_for
from ._matching import match_boxes as match_boxes
from ._page_images import Letterbox as Letterbox
from ._page_images import Matrix as Matrix
from ._page_images import resized as resized
from ._page_images import rotation as rotation
from ._page_images import translation as translation
from ._text_scores import aligned as aligned
from .common_types import Nested as Nested
from .common_types import Sample
from .geometry import (
    bbox_to_polygon,
    compute_expanded_shape,
    convert_to_relative_coords,
    detach_scores,
    estimate_page_angle,
    extract_crops,
    extract_rcrops,
    min_area_rect,
    order_points,
    polygon_to_bbox,
    remove_image_padding,
    resolve_enclosing_bbox,
    resolve_enclosing_rbbox,
    rotate_abs_geoms,
    rotate_boxes,
    rotate_image,
    straighten_page,
)
from .metrics import (
    CharacterErrorRate,
    DetectionMetric,
    LocalizationConfusion,
    ObjectDetectionMetric,
    OCRMetric,
    TableCellMetric,
    TextMatch,
    WordErrorRate,
    box_iou,
    hmean,
    nms,
    polygon_iou,
)
from .reconstitution import synthesize_kie_page, synthesize_page
from .visualization import draw_boxes, overlay, visualize_kie_page, visualize_page

__all__ = [
    "CharacterErrorRate",
    "DetectionMetric",
    "LocalizationConfusion",
    "OCRMetric",
    "ObjectDetectionMetric",
    "Sample",
    "TableCellMetric",
    "TextMatch",
    "WordErrorRate",
    "bbox_to_polygon",
    "box_iou",
    "common_types",
    "compute_expanded_shape",
    "convert_to_relative_coords",
    "detach_scores",
    "draw_boxes",
    "estimate_page_angle",
    "extract_crops",
    "extract_rcrops",
    "fonts",
    "geometry",
    "hmean",
    "metrics",
    "min_area_rect",
    "nms",
    "order_points",
    "overlay",
    "polygon_iou",
    "polygon_to_bbox",
    "reconstitution",
    "remove_image_padding",
    "resolve_enclosing_bbox",
    "resolve_enclosing_rbbox",
    "rotate_abs_geoms",
    "rotate_boxes",
    "rotate_image",
    "straighten_page",
    "synthesize_kie_page",
    "synthesize_page",
    "visualization",
    "visualize_kie_page",
    "visualize_page",
]
