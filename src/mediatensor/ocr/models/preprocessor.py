"""Turn images of any size into batches for a network. docTR has a module of the same name."""

from ._networks.preprocessing import FlexiblePreProcessor, PageBatch, Placement, PreProcessor

__all__ = ["FlexiblePreProcessor", "PageBatch", "Placement", "PreProcessor"]
