"""Data files in Parquet: read as they are stored, written with field ids.

Spec: Appendix A, Parquet.
"""
