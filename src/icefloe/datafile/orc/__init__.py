"""Data files in ORC: reader and appender, with field ids in column attributes.

Spec: Appendix A, ORC.
"""
