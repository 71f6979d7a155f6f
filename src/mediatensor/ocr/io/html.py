"""Web pages as PDF, with docTR's function."""

from __future__ import annotations

import importlib
import io
from typing import Any

from ...errors import InvalidArgumentError, MissingDependencyError, OpenError, SourceNotFoundError
from ._documents.web import Fetched, fetch, web_scheme

__all__ = ["read_html"]


def read_html(url: str, **kwargs: Any) -> bytes:
    """Print a web page to a PDF file. Needs the extra ``html``.

    The images and styles of a web page are fetched from the web only: by https, or also by http if the page itself came
    by http. Local files are not read for it. For a local page, nothing but the page itself is read. If you trust the
    page, pass a ``url_fetcher``, such as ``weasyprint.urls.URLFetcher()``, which fetches everything.

    Args:
        url: The URL of the page, or another first argument of ``weasyprint.HTML``, such as the path of a file.
        **kwargs: Further arguments of ``weasyprint.HTML``.

    Returns:
        The PDF file.

    Raises:
        SourceNotFoundError: if there is no such page.
        OpenError: if it cannot be read.
        MissingDependencyError: if weasyprint is not installed.

    Example:
        >>> file = read_html("https://www.example.com")  # doctest: +SKIP
    """
    weasyprint = _import_weasyprint()
    if web_scheme(url) and "url_fetcher" not in kwargs:
        return _print(weasyprint, fetch(url), kwargs)
    try:
        pdf: bytes = weasyprint.HTML(url, **{"url_fetcher": _local_fetcher(weasyprint, url), **kwargs}).write_pdf()
    except FileNotFoundError:
        raise SourceNotFoundError(f"Could not open {url}: it does not exist.") from None
    except OSError as error:
        raise OpenError(f"Could not open {url}: {error}.") from error
    return pdf


def print_page(page: Fetched) -> bytes:
    """Print a web page that has been fetched to a PDF file; needs weasyprint."""
    return _print(_import_weasyprint(), page, {})


def _import_weasyprint() -> Any:
    try:
        weasyprint = importlib.import_module("weasyprint")
        importlib.import_module("weasyprint.urls").URLFetcher  # noqa: B018
    except (ImportError, AttributeError):
        raise MissingDependencyError(
            'Reading web pages needs weasyprint, 68 or newer: pip install "mediatensor[html]".'
        ) from None
    return weasyprint


def _print(weasyprint: Any, page: Fetched, arguments: dict[str, Any]) -> bytes:
    wanted = {"encoding": page.charset, "base_url": page.url, "url_fetcher": _fetcher(weasyprint, page), **arguments}
    pdf: bytes = weasyprint.HTML(file_obj=io.BytesIO(page.data), **wanted).write_pdf()
    return pdf


def _local_fetcher(weasyprint: Any, page: str) -> Any:
    """A fetcher for a local page that reads only the page itself and ``data:`` URLs."""

    class Fetcher(weasyprint.urls.URLFetcher):  # type: ignore[misc]
        def fetch(self, url: str, headers: Any = None) -> Any:
            if url[:5].lower() == "data:" or url == page:
                return super().fetch(url, headers)
            raise InvalidArgumentError(
                f"{url[:200]!r} is not read for {page}; pass a url_fetcher if you trust the page."
            )

    return Fetcher()


def _fetcher(weasyprint: Any, page: Fetched) -> Any:
    """A fetcher for the images and styles of a page from the web."""
    schemes = ("https",) if web_scheme(page.url) == "https" else ("https", "http")

    class Fetcher(weasyprint.urls.URLFetcher):  # type: ignore[misc]
        def fetch(self, url: str, headers: Any = None) -> Any:
            if url[:5].lower() == "data:":
                return super().fetch(url, headers)
            if web_scheme(url) not in schemes:
                raise InvalidArgumentError(f"{url[:200]!r} is not fetched for {page.url}: it is not {schemes[-1]}.")
            found = fetch(url)
            kind = found.content_type + (f"; charset={found.charset}" if found.charset else "")
            return weasyprint.urls.URLFetcherResponse(found.url, found.data, {"Content-Type": kind})

    return Fetcher()
