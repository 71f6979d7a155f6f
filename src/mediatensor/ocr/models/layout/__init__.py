"""Layout analysis: find the regions of a page with docTR's networks.

mediatensor does not include weights for these networks, so users must provide them.
"""

from .lw_detr import LWDETR, lw_detr_m, lw_detr_s
from .zoo import layout_predictor

__all__ = ["LWDETR", "layout_predictor", "lw_detr_m", "lw_detr_s"]
