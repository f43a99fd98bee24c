"""Data files in ORC: read as they are stored, written with field ids.

Floor: datafile. Spec: Appendix A, ORC.
"""
