"""Documents in: PDF files and images as pages, each read on access.

`pages` has `Pages` and the interface of documents. `images` and `tiff` read images. `pdf` reads PDF files
with PDFium, in this process (`pdfium`, `pdf_page`) or in a separate one with a time limit (`pdf_process`,
`pdf_process_main`); `pdf_text` makes words of characters, and `pdf_drawing` finds type, lines and pictures.
`picture_pdf` puts an image into a PDF file. `web` fetches files from web servers.

This package uses the elements, because a PDF page has words, but no exports.
"""
