"""The page that shows a table, from its catalog to the bytes of its files: sections as HTML, a server for them, and one self-contained file of them."""
