"""Types and values between Spark and Iceberg: schemas, Arrow, geometries, partition constants."""
