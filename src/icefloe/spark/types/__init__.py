"""Conversion of types and values between Spark and Iceberg: schemas, Arrow data, geometries, defaults."""
