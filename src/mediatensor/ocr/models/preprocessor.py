"""Images of any size to batches for a network; docTR's module of this name."""

from ._pages.preprocessing import FlexiblePreProcessor, PageBatch, Placement, PreProcessor

__all__ = ["FlexiblePreProcessor", "PageBatch", "Placement", "PreProcessor"]
