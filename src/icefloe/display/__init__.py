"""The display of values: reports of facts and grids, their HTML for notebooks, figures, and progress.

`display/terminal.py` draws reports in a terminal; it needs a drawing library.
"""
