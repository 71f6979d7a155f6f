"""Reading as a service: an HTTP interface to what this library reads in images, PDF files and videos.

Uploads are read in separate processes with limits of time and memory, and are deleted with their jobs. The command
``mediatensor serve`` runs it; needs the extra ``serve``.
"""

from __future__ import annotations

from ._application import create_app
from ._application import make_server as make_server  # for the command

__all__ = ["create_app"]
