"""Data files in Parquet: reader and appender, footers, pruning of row groups, bloom filters.

Spec: Appendix A, Parquet.
"""
