"""Print web pages as PDF."""

from __future__ import annotations

import importlib
import io
from typing import Any

from ..._engine.images.reading import MAX_FILE_BYTES
from ..._engine.sources.http import Download, download, web_scheme
from ...errors import InvalidArgumentError, MissingDependencyError, OpenError, SourceNotFoundError

__all__ = ["read_html"]


def read_html(url: str, **kwargs: Any) -> bytes:
    """Print a web page to a PDF file. This needs WeasyPrint, which the extra ``html`` installs.

    What a page can load is restricted. A page that was fetched by https can load images and styles only by https; a
    page that was fetched by http can use both. No web page can make this function read local files. A page that is
    itself a local file can load no other file or URL. If you trust the page, you can lift these restrictions with a
    ``url_fetcher`` such as ``weasyprint.urls.URLFetcher()``.

    Args:
        url: The URL of the page, or any other first argument of ``weasyprint.HTML``, such as the path of a file.
        **kwargs: Further arguments of ``weasyprint.HTML``.

    Returns:
        The contents of the PDF file, as ``bytes``.

    Raises:
        SourceNotFoundError: if the page does not exist.
        OpenError: if the page cannot be read.
        MissingDependencyError: if weasyprint is not installed.

    Example:
        >>> file = read_html("https://www.example.com")  # doctest: +SKIP
    """
    weasyprint = _import_weasyprint()
    if web_scheme(url) and "url_fetcher" not in kwargs:
        return print_page(download(url, MAX_FILE_BYTES), **kwargs)
    try:
        pdf: bytes = weasyprint.HTML(url, **{"url_fetcher": _local_fetcher(weasyprint, url), **kwargs}).write_pdf()
    except FileNotFoundError:
        raise SourceNotFoundError(f"Could not open {url}: it does not exist.") from None
    except OSError as error:
        raise OpenError(f"Could not open {url}: {error}.") from error
    return pdf


def print_page(page: Download, **kwargs: Any) -> bytes:
    """Print ``page``, a web page that has already been downloaded, to a PDF file.

    ``kwargs`` are arguments of ``weasyprint.HTML``.
    """
    weasyprint = _import_weasyprint()
    wanted = {"encoding": page.charset, "base_url": page.url, "url_fetcher": _fetcher(weasyprint, page), **kwargs}
    pdf: bytes = weasyprint.HTML(file_obj=io.BytesIO(page.data), **wanted).write_pdf()
    return pdf


def _import_weasyprint() -> Any:
    try:
        weasyprint = importlib.import_module("weasyprint")
        importlib.import_module("weasyprint.urls").URLFetcher  # noqa: B018
    except (ImportError, AttributeError):
        raise MissingDependencyError(
            'Reading web pages needs weasyprint, 68 or newer: pip install "mediatensor[html]".'
        ) from None
    return weasyprint


def _local_fetcher(weasyprint: Any, page: str) -> Any:
    """Return the URL fetcher for a local file ``page``. It lets the page load only itself and ``data:`` URLs."""

    class Fetcher(weasyprint.urls.URLFetcher):  # type: ignore[misc]
        def fetch(self, url: str, headers: Any = None) -> Any:
            if url[:5].lower() == "data:" or url == page:
                return super().fetch(url, headers)
            raise InvalidArgumentError(
                f"{url[:200]!r} is not read for {page}; pass a url_fetcher if you trust the page."
            )

    return Fetcher()


def _fetcher(weasyprint: Any, page: Download) -> Any:
    """Return the URL fetcher for a web page. It lets the page load images and styles only from web servers.

    ``data:`` URLs are also allowed. A page that was fetched by https can load nothing by http.
    """
    schemes = ("https",) if web_scheme(page.url) == "https" else ("https", "http")

    class Fetcher(weasyprint.urls.URLFetcher):  # type: ignore[misc]
        def fetch(self, url: str, headers: Any = None) -> Any:
            if url[:5].lower() == "data:":
                return super().fetch(url, headers)
            if web_scheme(url) not in schemes:
                raise InvalidArgumentError(f"{url[:200]!r} is not fetched for {page.url}: it is not {schemes[-1]}.")
            response = download(url, MAX_FILE_BYTES)
            kind = response.content_type + (f"; charset={response.charset}" if response.charset else "")
            return weasyprint.urls.URLFetcherResponse(response.url, response.data, {"Content-Type": kind})

    return Fetcher()
