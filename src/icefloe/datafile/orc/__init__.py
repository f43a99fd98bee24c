"""Data files in ORC: read as they are stored, written with field ids.

Spec: Appendix A, ORC.
"""
