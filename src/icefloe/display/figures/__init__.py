"""Figures of tables as values, each drawn as SVG for pages and notebooks, and where it is a plot also described in Vega-Lite."""
