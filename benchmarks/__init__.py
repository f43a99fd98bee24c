"""Benchmarks: the cost of Icefloe compared with PyIceberg and with Spark's Parquet reader and writer, as ratios within one run.

`make bench` prints the ratios; no benchmark asserts a time.
"""
