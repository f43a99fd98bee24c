"""Data files in Avro: read as they are stored, written with field ids.

Floor: datafile. Spec: Appendix A, Avro.
"""
