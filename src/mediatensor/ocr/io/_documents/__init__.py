"""Open PDF files and images as sequences of pages. A page is read when it is accessed.

`pages` defines such a sequence, `Pages`, and the interface that every kind of document implements. `images` reads image
files. `pdf` reads PDF files with PDFium, by means of `pdfium`. If there is a time limit, PDFium runs in
a separate process, whose program is `pdf_process`. `picture_pdf` creates a PDF file from an image.

This package may import elements, because the text layer of a PDF page consists of `Word` objects. It must not import
the exports.
"""
