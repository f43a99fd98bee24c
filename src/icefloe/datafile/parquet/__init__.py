"""Data files in Parquet: read as they are stored, written with field ids.

Floor: datafile. Spec: Appendix A, Parquet.
"""
