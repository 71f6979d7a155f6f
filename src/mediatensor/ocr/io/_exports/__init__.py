"""Write documents: text, Markdown, AsciiDoc, HTML, hOCR, ALTO, TSV, searchable PDF; tables as CSV and workbooks.

Text formats use `reading`, which puts the content of a page into reading order. Formats with positions use `regions`,
which adds positions in pixels. Exporters take elements, and do not call the export methods of pages.
"""
