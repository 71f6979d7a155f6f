"""Reading documents: PDF files and images as pages, each read on access.

`pages` has `Pages` and the interface of documents, and `images` reads images. `pdf` reads PDF files with PDFium
(`pdfium`, `pdf_drawing`), in this process or in a separate one with a time limit (`pdf_process_main`). `picture_pdf`
puts an image into a PDF file.

This package uses elements, because a PDF page has words, but no exports.
"""
