"""Figures of tables as values. Each can be drawn as SVG for pages and notebooks; a plot can also be described in Vega-Lite."""
