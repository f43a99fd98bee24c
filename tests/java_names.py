"""Names of the options, settings and properties of Java Iceberg 1.11, by the class that lists them, and of the options and settings that 1.12 adds for Spark.

A name that ends in a dot is a prefix.
"""


def _names(text: str) -> list[str]:
    return text.split()


# SparkReadOptions
READ_OPTIONS = _names("""
    snapshot-id as-of-timestamp tag start-snapshot-id end-snapshot-id start-timestamp end-timestamp branch split-size lookback file-open-cost
    vectorization-enabled batch-size streaming-skip-delete-snapshots streaming-skip-overwrite-snapshots locality stream-from-timestamp
    streaming-max-files-per-micro-batch streaming-max-rows-per-micro-batch async-micro-batch-planning-enabled streaming-snapshot-polling-interval-ms
    async-queue-preload-file-limit async-queue-preload-row-limit path versionAsOf timestampAsOf aggregate-push-down-enabled
""")

# SparkWriteOptions
WRITE_OPTIONS = _names("""
    branch write-format target-file-size-bytes delete-format target-delete-file-size-bytes check-nullability snapshot-property fanout-enabled
    check-ordering output-spec-id output-sort-order-id overwrite-mode distribution-mode use-table-distribution-and-ordering merge-schema mergeSchema
    validate-from-snapshot-id isolation-level compression-codec compression-level compression-strategy advisory-partition-size delete-granularity
    shred-variants variant-inference-buffer-size use-merge-append-for-streaming
""")

# SparkSQLProperties
SESSION_SETTINGS = _names("""
    spark.sql.iceberg.vectorization.enabled spark.sql.iceberg.check-nullability spark.sql.iceberg.check-ordering
    spark.sql.iceberg.planning.preserve-data-grouping spark.sql.iceberg.aggregate-push-down.enabled spark.sql.iceberg.distribution-mode spark.wap.id
    spark.wap.branch spark.sql.iceberg.compression-codec spark.sql.iceberg.compression-level spark.sql.iceberg.compression-strategy
    spark.sql.iceberg.data-planning-mode spark.sql.iceberg.delete-planning-mode spark.sql.iceberg.advisory-partition-size
    spark.sql.iceberg.locality.enabled spark.sql.iceberg.executor-cache.enabled spark.sql.iceberg.executor-cache.delete-files.enabled
    spark.sql.iceberg.executor-cache.timeout spark.sql.iceberg.executor-cache.max-entry-size spark.sql.iceberg.executor-cache.max-total-size
    spark.sql.iceberg.merge-schema spark.sql.iceberg.executor-cache.locality.enabled spark.sql.iceberg.report-column-stats
    spark.sql.iceberg.identifier-fields-rely spark.sql.iceberg.snapshot-property. spark.sql.iceberg.read.adaptive-split-size.enabled
    spark.sql.iceberg.read.adaptive-split-size.parallelism spark.sql.iceberg.async-micro-batch-planning-enabled spark.sql.iceberg.shred-variants
    spark.sql.iceberg.variant-inference-buffer-size spark.sql.iceberg.read.split-size spark.sql.iceberg.view.schema-binding-mode
""")

# TableProperties
TABLE_PROPERTIES = _names("""
    format-version uuid snapshot-count current-snapshot-summary current-snapshot-id current-snapshot-timestamp-ms current-schema
    default-partition-spec default-sort-order comment commit.retry.num-retries commit.retry.min-wait-ms commit.retry.max-wait-ms
    commit.retry.total-timeout-ms commit.status-check.num-retries commit.status-check.min-wait-ms commit.status-check.max-wait-ms
    commit.status-check.total-timeout-ms commit.manifest.target-size-bytes commit.manifest.min-count-to-merge commit.manifest-merge.enabled
    write.format.default write.delete.format.default write.parquet.row-group-size-bytes write.delete.parquet.row-group-size-bytes
    write.parquet.page-size-bytes write.delete.parquet.page-size-bytes write.parquet.page-version write.delete.parquet.page-version
    write.parquet.page-row-limit write.delete.parquet.page-row-limit write.parquet.dict-size-bytes write.delete.parquet.dict-size-bytes
    write.parquet.compression-codec write.delete.parquet.compression-codec write.parquet.compression-level write.delete.parquet.compression-level
    write.parquet.shred-variants write.parquet.variant-inference-buffer-size write.parquet.row-group-check-min-record-count
    write.delete.parquet.row-group-check-min-record-count write.parquet.row-group-check-max-record-count
    write.delete.parquet.row-group-check-max-record-count write.parquet.bloom-filter-max-bytes write.parquet.bloom-filter-fpp.column.
    write.parquet.bloom-filter-ndv.column. write.parquet.bloom-filter-enabled.column. write.parquet.stats-enabled.column. write.avro.compression-codec
    write.delete.avro.compression-codec write.avro.compression-level write.delete.avro.compression-level write.manifest.compression-codec
    write.manifest.compression-level write.orc.stripe-size-bytes write.orc.bloom.filter.columns write.orc.bloom.filter.fpp
    write.delete.orc.stripe-size-bytes write.orc.block-size-bytes write.delete.orc.block-size-bytes write.orc.vectorized.batch-size
    write.delete.orc.vectorized.batch-size write.orc.compression-codec write.delete.orc.compression-codec write.orc.compression-strategy
    write.delete.orc.compression-strategy read.split.target-size read.split.metadata-target-size read.split.planning-lookback
    read.split.open-file-cost read.split.adaptive-size.enabled read.parquet.vectorization.enabled read.parquet.vectorization.batch-size
    read.orc.vectorization.enabled read.orc.vectorization.batch-size read.data-planning-mode read.delete-planning-mode identifier-fields.rely
    write.object-storage.enabled write.object-storage.partitioned-paths write.object-storage.path write.location-provider.impl
    write.folder-storage.path write.data.path write.metadata.path write.summary.partition-limit write.manifest-lists.enabled
    write.metadata.compression-codec write.metadata.previous-versions-max write.metadata.delete-after-commit.enabled
    write.metadata.metrics.max-inferred-column-defaults write.metadata.metrics.column. write.metadata.metrics.default schema.name-mapping.default
    write.wap.enabled write.target-file-size-bytes write.delete.target-file-size-bytes write.spark.fanout.enabled write.spark.accept-any-schema
    write.spark.auto-schema-evolution.enabled write.spark.advisory-partition-size-bytes compatibility.snapshot-id-inheritance.enabled
    engine.hive.enabled engine.hive.lock-enabled write.distribution-mode gc.enabled history.expire.max-snapshot-age-ms
    history.expire.min-snapshots-to-keep history.expire.max-ref-age-ms write.delete.granularity write.delete.isolation-level write.delete.mode
    write.delete.distribution-mode write.update.isolation-level write.update.mode write.update.distribution-mode write.merge.isolation-level
    write.merge.mode write.merge.distribution-mode write.upsert.enabled encryption.key-id encryption.data-key-length
""")

# CatalogProperties
CATALOG_PROPERTIES = _names("""
    catalog-impl io-impl warehouse table-default. table-override. view-default. view-override. metrics-reporter-impl cache-enabled
    cache.case-sensitive cache.expiration-interval-ms io.manifest.cache-enabled io.manifest.cache.expiration-interval-ms
    io.manifest.cache.max-total-bytes io.manifest.cache.max-content-length uri clients client.pool.cache.eviction-interval-ms client-pool-cache-keys
    lock-impl lock.heartbeat-interval-ms lock.heartbeat-timeout-ms lock.heartbeat-threads lock.acquire-interval-ms lock.acquire-timeout-ms lock.table
    app-id app-name user unique-table-location auth.session-timeout-ms encryption.kms-type encryption.kms-impl
""")

# Properties of catalogs that Icefloe acts on, and that are constants in JdbcCatalog, AwsProperties, ConfigProperties, MetastoreLock
# and HiveOperationsBase.
SERVICE_PROPERTIES = _names("""
    jdbc.user jdbc.password jdbc.schema-version glue.endpoint glue.id glue.skip-archive
    iceberg.engine.hive.lock-enabled iceberg.engine.hive.enabled iceberg.hive.lock-timeout-ms iceberg.hive.lock-check-min-wait-ms
    iceberg.hive.lock-check-max-wait-ms iceberg.hive.lock-heartbeat-interval-ms iceberg.hive.table-property-max-size
""")

# Defaults that are constants in TableProperties. The codec is that of tables created since 1.4.
TABLE_DEFAULTS = {
    "commit.retry.num-retries": "4",
    "commit.retry.min-wait-ms": "100",
    "commit.retry.max-wait-ms": "60000",
    "commit.retry.total-timeout-ms": "1800000",
    "commit.status-check.num-retries": "3",
    "commit.status-check.min-wait-ms": "1000",
    "commit.status-check.max-wait-ms": "60000",
    "commit.status-check.total-timeout-ms": "1800000",
    "commit.manifest.target-size-bytes": "8388608",
    "commit.manifest.min-count-to-merge": "100",
    "commit.manifest-merge.enabled": "true",
    "write.format.default": "parquet",
    "write.target-file-size-bytes": "536870912",
    "write.spark.fanout.enabled": "false",
    "write.spark.accept-any-schema": "false",
    "write.spark.auto-schema-evolution.enabled": "true",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.row-group-size-bytes": "134217728",
    "write.parquet.page-size-bytes": "1048576",
    "write.parquet.page-row-limit": "20000",
    "write.parquet.dict-size-bytes": "2097152",
    "write.parquet.page-version": "v1",
    "write.parquet.bloom-filter-max-bytes": "1048576",
    "write.orc.compression-codec": "zlib",
    "write.orc.compression-strategy": "speed",
    "write.orc.stripe-size-bytes": "67108864",
    "write.orc.bloom.filter.columns": "",
    "write.orc.bloom.filter.fpp": "0.05",
    "write.metadata.metrics.default": "truncate(16)",
    "write.metadata.metrics.max-inferred-column-defaults": "100",
    "write.metadata.compression-codec": "none",
    "write.metadata.previous-versions-max": "100",
    "write.metadata.delete-after-commit.enabled": "false",
    "write.avro.compression-codec": "gzip",
    "write.delete.isolation-level": "serializable",
    "write.update.isolation-level": "serializable",
    "write.merge.isolation-level": "serializable",
    "read.split.target-size": "134217728",
    "read.split.open-file-cost": "4194304",
    "read.split.adaptive-size.enabled": "true",
    "read.parquet.vectorization.enabled": "true",
    "read.parquet.vectorization.batch-size": "5000",
    "write.wap.enabled": "false",
    "history.expire.max-snapshot-age-ms": "432000000",
    "history.expire.min-snapshots-to-keep": "1",
    "history.expire.max-ref-age-ms": "9223372036854775807",
    "gc.enabled": "true",
    "write.delete.target-file-size-bytes": "67108864",
}
