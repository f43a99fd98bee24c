"""What Icefloe costs beside PyIceberg and beside Spark's own Parquet, as ratios of one run. `make bench` prints them; nothing here asserts a time."""
