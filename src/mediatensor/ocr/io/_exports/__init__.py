"""Write documents as text, Markdown, AsciiDoc, HTML, hOCR, ALTO, TSV or searchable PDF, and tables as CSV or workbooks.

Exporters of text formats use `text`, which divides a page in reading order into parts. Exporters of formats with
positions use `regions`, which also computes positions in pixels. Exporters must not call the methods
``Page.export_as_...``, because these call the exporters.
"""
