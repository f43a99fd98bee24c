"""The display of values: reports of facts and grids, their HTML for notebooks, the text of numbers, times and paths.

A terminal draws reports with `display/terminal.py`, which needs a drawing library.
"""
