"""Writing documents: text, Markdown, AsciiDoc, HTML, hOCR, ALTO, TSV, searchable PDF, CSV and workbooks of tables.

Text formats are written from `reading`, the content of a page in reading order. Formats with positions are written from
`regions`, the same content with positions in pixels. Exporters take elements and do not use the methods of pages.
"""
