"""Data files in Avro: read as they are stored, written with field ids.

Spec: Appendix A, Avro.
"""
