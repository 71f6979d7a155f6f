"""What needs data and text at once: datasets of documents and words, and reading text on many machines."""
