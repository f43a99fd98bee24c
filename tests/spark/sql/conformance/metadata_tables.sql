-- Metadata tables: the columns and rows of each, what filters and joins find in them.

CREATE NAMESPACE lake.meta;
-- rows: 0

CREATE TABLE lake.meta.t (id BIGINT, kind STRING, s STRUCT<a: INT>) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read');
-- rows: 0

INSERT INTO lake.meta.t SELECT /*+ COALESCE(1) */ id, 'a', named_struct('a', CAST(id AS INT)) FROM range(4);
-- rows: 0
-- snapshot s1: lake.meta.t

INSERT INTO lake.meta.t VALUES (10, 'b', NULL);
-- rows: 0
-- snapshot s2: lake.meta.t

DELETE FROM lake.meta.t WHERE id = 1;
-- rows: 0
-- snapshot s3: lake.meta.t

ALTER TABLE lake.meta.t CREATE TAG first AS OF VERSION ${s1};
-- rows: 0

SELECT snapshot_id, parent_id, operation FROM lake.meta.t.snapshots ORDER BY committed_at;
-- rows: 3
-- [${s1}, null, "append"]
-- [${s2}, ${s1}, "append"]
-- [${s3}, ${s2}, "delete"]

SELECT snapshot_id, parent_id, is_current_ancestor FROM lake.meta.t.history ORDER BY made_current_at;
-- rows: 3
-- [${s1}, null, true]
-- [${s2}, ${s1}, true]
-- [${s3}, ${s2}, true]

SELECT * FROM lake.meta.t.refs ORDER BY name;
-- rows: 2
-- ["first", "TAG", ${s1}, null, null, null]
-- ["main", "BRANCH", ${s3}, null, null, null]

SELECT content, file_format, spec_id, partition, record_count, equality_ids, sort_order_id FROM lake.meta.t.files ORDER BY content, record_count;
-- rows: 3
-- [0, "PARQUET", 0, {"kind": "b"}, 1, null, 0]
-- [0, "PARQUET", 0, {"kind": "a"}, 4, null, 0]
-- [1, "PARQUET", 0, {"kind": "a"}, 1, null, null]

SELECT content, partition.kind, record_count FROM lake.meta.t.data_files ORDER BY record_count;
-- rows: 2
-- [0, "b", 1]
-- [0, "a", 4]

SELECT content, partition.kind, record_count FROM lake.meta.t.delete_files;
-- rows: 1
-- [1, "a", 1]

SELECT content, record_count FROM lake.meta.t.all_files ORDER BY content, record_count;
-- rows: 3
-- [0, 1]
-- [0, 4]
-- [1, 1]

SELECT content, record_count FROM lake.meta.t.all_data_files ORDER BY record_count;
-- rows: 2
-- [0, 1]
-- [0, 4]

SELECT content, record_count FROM lake.meta.t.all_delete_files;
-- rows: 1
-- [1, 1]

SELECT status, snapshot_id, sequence_number, data_file.content, data_file.record_count FROM lake.meta.t.entries ORDER BY sequence_number;
-- rows: 3
-- [1, ${s1}, 1, 0, 4]
-- [1, ${s2}, 2, 0, 1]
-- [1, ${s3}, 3, 1, 1]

SELECT status, snapshot_id, sequence_number, file_sequence_number FROM lake.meta.t.all_entries ORDER BY sequence_number;
-- rows: 3
-- [1, ${s1}, 1, 1]
-- [1, ${s2}, 2, 2]
-- [1, ${s3}, 3, 3]

SELECT content, added_snapshot_id, added_data_files_count, added_delete_files_count, partition_summaries FROM lake.meta.t.manifests ORDER BY content, partition_summaries[0].lower_bound;
-- rows: 3
-- [0, ${s1}, 1, 0, [{"contains_null": false, "contains_nan": false, "lower_bound": "a", "upper_bound": "a"}]]
-- [0, ${s2}, 1, 0, [{"contains_null": false, "contains_nan": false, "lower_bound": "b", "upper_bound": "b"}]]
-- [1, ${s3}, 0, 1, [{"contains_null": false, "contains_nan": false, "lower_bound": "a", "upper_bound": "a"}]]

SELECT content, count(*) FROM lake.meta.t.all_manifests GROUP BY content ORDER BY content;
-- rows: 2
-- [0, 5]
-- [1, 1]

SELECT reference_snapshot_id, count(*) FROM lake.meta.t.all_manifests GROUP BY 1 ORDER BY 2;
-- rows: 3
-- [${s1}, 1]
-- [${s2}, 2]
-- [${s3}, 3]

SELECT partition, spec_id, record_count, file_count, position_delete_record_count, position_delete_file_count, equality_delete_record_count, last_updated_snapshot_id FROM lake.meta.t.partitions ORDER BY partition.kind;
-- rows: 2
-- [{"kind": "a"}, 0, 4, 1, 1, 1, 0, ${s3}]
-- [{"kind": "b"}, 0, 1, 1, 0, 0, 0, ${s2}]

SELECT pos, row, partition, spec_id FROM lake.meta.t.position_deletes;
-- rows: 1
-- [1, null, {"kind": "a"}, 0]

SELECT latest_snapshot_id, latest_schema_id, latest_sequence_number FROM lake.meta.t.metadata_log_entries ORDER BY timestamp;
-- rows: 5
-- [null, null, null]
-- [${s1}, 0, 1]
-- [${s2}, 0, 2]
-- [${s3}, 0, 3]
-- [${s3}, 0, 3]

SELECT count(*) FROM lake.meta.t.position_deletes p JOIN lake.meta.t.data_files d ON p.file_path = d.file_path;
-- rows: 1
-- [1]

SELECT s.operation, h.is_current_ancestor FROM lake.meta.t.snapshots s JOIN lake.meta.t.history h ON s.snapshot_id = h.snapshot_id ORDER BY s.committed_at;
-- rows: 3
-- ["append", true]
-- ["append", true]
-- ["delete", true]

SELECT readable_metrics.id.lower_bound, readable_metrics.id.upper_bound, readable_metrics.id.value_count, readable_metrics.id.null_value_count FROM lake.meta.t.data_files ORDER BY 1;
-- rows: 2
-- [0, 3, 4, 0]
-- [10, 10, 1, 0]

SELECT readable_metrics.kind.lower_bound, readable_metrics.`s.a`.upper_bound FROM lake.meta.t.data_files ORDER BY 1;
-- rows: 2
-- ["a", 3]
-- ["b", null]

SELECT value_counts, null_value_counts, nan_value_counts FROM lake.meta.t.data_files WHERE record_count = 4;
-- rows: 1
-- [[[1, 4], [2, 4], [4, 4]], [[1, 0], [2, 0], [4, 0]], []]

SELECT summary['added-records'], summary['total-records'], summary['total-data-files'], summary['changed-partition-count'] FROM lake.meta.t.snapshots ORDER BY committed_at;
-- rows: 3
-- ["4", "4", "1", "1"]
-- ["1", "5", "2", "1"]
-- [null, "5", "2", "1"]

SELECT summary['added-position-deletes'], summary['total-position-deletes'], summary['total-delete-files'] FROM lake.meta.t.snapshots ORDER BY committed_at;
-- rows: 3
-- [null, "0", "0"]
-- [null, "0", "0"]
-- ["1", "1", "1"]

SELECT count(*) FROM lake.meta.t.files WHERE record_count > 1;
-- rows: 1
-- [1]

SELECT count(*) FROM lake.meta.t.files WHERE content = 1;
-- rows: 1
-- [1]

SELECT count(*) FROM lake.meta.t.files WHERE partition.kind = 'b';
-- rows: 1
-- [1]

SELECT sum(record_count) FROM lake.meta.t.files WHERE file_path LIKE '%.parquet' AND content = 0;
-- rows: 1
-- [5]

SELECT count(*) FROM lake.meta.t.entries WHERE data_file.record_count = 4;
-- rows: 1
-- [1]

SELECT count(*) FROM lake.meta.t.partitions WHERE partition.kind = 'a';
-- rows: 1
-- [1]

SELECT count(*) FROM lake.meta.t.snapshots WHERE operation = 'append';
-- rows: 1
-- [2]

SELECT max(record_count), min(record_count) FROM lake.meta.t.data_files;
-- rows: 1
-- [4, 1]

SELECT count(*) FROM lake.meta.t.files VERSION AS OF ${s2};
-- rows: 1
-- [2]

SELECT count(*) FROM lake.meta.t.files VERSION AS OF 'first';
-- rows: 1
-- [1]

SELECT record_count FROM lake.meta.t.partitions VERSION AS OF ${s1};
-- rows: 1
-- [4]

DESCRIBE lake.meta.t.snapshots;
-- rows: 6
-- ["committed_at", "timestamp", null]
-- ["snapshot_id", "bigint", null]
-- ["parent_id", "bigint", null]
-- ["operation", "string", null]
-- ["manifest_list", "string", null]
-- ["summary", "map<string,string>", null]

DESCRIBE lake.meta.t.history;
-- rows: 4
-- ["made_current_at", "timestamp", null]
-- ["snapshot_id", "bigint", null]
-- ["parent_id", "bigint", null]
-- ["is_current_ancestor", "boolean", null]

DESCRIBE lake.meta.t.metadata_log_entries;
-- rows: 5
-- ["timestamp", "timestamp", null]
-- ["file", "string", null]
-- ["latest_snapshot_id", "bigint", null]
-- ["latest_schema_id", "int", null]
-- ["latest_sequence_number", "bigint", null]

SELECT * FROM lake.meta.t.nonsense;
-- error: TABLE_OR_VIEW_NOT_FOUND

INSERT INTO lake.meta.t.refs SELECT * FROM lake.meta.t.refs;
-- error: any

DELETE FROM lake.meta.t.files WHERE content = 1;
-- error: any

CREATE TABLE lake.meta.plain (id BIGINT, v DOUBLE) USING iceberg;
-- rows: 0

SELECT count(*) FROM lake.meta.plain.snapshots;
-- rows: 1
-- [0]

SELECT count(*) FROM lake.meta.plain.files;
-- rows: 1
-- [0]

SELECT count(*) FROM lake.meta.plain.partitions;
-- rows: 1
-- [0]

SELECT count(*) FROM lake.meta.plain.metadata_log_entries;
-- rows: 1
-- [1]

INSERT INTO lake.meta.plain SELECT /*+ COALESCE(1) */ id, if(id = 0, double('NaN'), id) FROM range(3);
-- rows: 0

SELECT record_count, file_count, position_delete_record_count FROM lake.meta.plain.partitions;
-- rows: 1
-- [3, 1, 0]

SELECT nan_value_counts FROM lake.meta.plain.files;
-- rows: 1
-- [[[2, 1]]]

SELECT content, partition_spec_id, added_data_files_count, existing_data_files_count, deleted_data_files_count, partition_summaries FROM lake.meta.plain.manifests;
-- rows: 1
-- [0, 0, 1, 0, 0, []]

-- Specs that changed: one struct for them all.
ALTER TABLE lake.meta.t ADD PARTITION FIELD bucket(2, id);
-- rows: 0

INSERT INTO lake.meta.t VALUES (20, 'c', NULL);
-- rows: 0

SELECT partition, spec_id, record_count FROM lake.meta.t.partitions ORDER BY partition.kind;
-- rows: 3
-- [{"kind": "a", "id_bucket_2": null}, 0, 4]
-- [{"kind": "b", "id_bucket_2": null}, 0, 1]
-- [{"kind": "c", "id_bucket_2": 1}, 1, 1]

SELECT partition, spec_id FROM lake.meta.t.files ORDER BY spec_id, partition.kind, content;
-- rows: 4
-- [{"kind": "a", "id_bucket_2": null}, 0]
-- [{"kind": "a", "id_bucket_2": null}, 0]
-- [{"kind": "b", "id_bucket_2": null}, 0]
-- [{"kind": "c", "id_bucket_2": 1}, 1]

CREATE TABLE lake.meta.dv (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read');
-- rows: 0

INSERT INTO lake.meta.dv SELECT /*+ COALESCE(1) */ id FROM range(5);
-- rows: 0

DELETE FROM lake.meta.dv WHERE id IN (1, 3);
-- rows: 0

SELECT pos, spec_id FROM lake.meta.dv.position_deletes ORDER BY pos;
-- rows: 2
-- [1, 0]
-- [3, 0]

SELECT content, file_format, record_count, first_row_id FROM lake.meta.dv.files ORDER BY content;
-- rows: 2
-- [0, "PARQUET", 5, 0]
-- [1, "PUFFIN", 2, null]

SELECT content, content_offset IS NOT NULL, content_size_in_bytes IS NOT NULL, referenced_data_file IS NOT NULL FROM lake.meta.dv.files ORDER BY content;
-- rows: 2
-- [0, false, false, false]
-- [1, true, true, true]
