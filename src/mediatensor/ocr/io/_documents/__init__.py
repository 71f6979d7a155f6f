"""Documents, PDF files and images, as sequences of pages that are read when they are accessed.

`pages` has `Pages` and the interface of documents. `images` reads images. `pdf` reads PDF files with PDFium (`pdfium`,
`pdf_drawing`), either in this process or, with a time limit, in a separate process (`pdf_process_main`). `picture_pdf`
puts an image into a PDF file.

This package uses elements, because PDF pages have words. It does not use exports.
"""
