"""Layout: which regions are on a page, by docTR's networks. They need weights that a user has."""

from .lw_detr import LWDETR, lw_detr_m, lw_detr_s
from .zoo import layout_predictor

__all__ = ["LWDETR", "layout_predictor", "lw_detr_m", "lw_detr_s"]
