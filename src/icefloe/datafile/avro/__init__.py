"""Data files in Avro: reader, appender, schema and conversion of values.

Spec: Appendix A, Avro.
"""
