-- MERGE with every clause, in both modes.

CREATE NAMESPACE lake.merged;
-- rows: 0

CREATE TABLE lake.merged.cow (id BIGINT, v STRING, n INT) USING iceberg TBLPROPERTIES ('format-version' = '2');
-- rows: 0

INSERT INTO lake.merged.cow SELECT /*+ COALESCE(1) */ id, concat('v', id), CAST(id AS INT) FROM range(6);
-- rows: 0

CREATE TABLE lake.merged.changes (id BIGINT, v STRING, n INT) USING iceberg;
-- rows: 0

INSERT INTO lake.merged.changes VALUES (1, 'one', 10), (2, NULL, 20), (8, 'eight', 80);
-- rows: 0

MERGE INTO lake.merged.cow t USING lake.merged.changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
-- rows: 0

SELECT * FROM lake.merged.cow ORDER BY id;
-- rows: 7
-- [0, "v0", 0]
-- [1, "one", 10]
-- [2, null, 20]
-- [3, "v3", 3]
-- [4, "v4", 4]
-- [5, "v5", 5]
-- [8, "eight", 80]

SELECT content, sum(record_count) FROM lake.merged.cow.files GROUP BY content;
-- rows: 1
-- [0, 7]

MERGE INTO lake.merged.cow t USING lake.merged.changes s ON t.id = s.id WHEN MATCHED AND s.v IS NULL THEN DELETE WHEN MATCHED AND t.n > 50 THEN UPDATE SET t.n = t.n + s.n, t.v = concat(t.v, '!') WHEN MATCHED THEN UPDATE SET t.n = 0;
-- rows: 0

SELECT * FROM lake.merged.cow ORDER BY id;
-- rows: 6
-- [0, "v0", 0]
-- [1, "one", 0]
-- [3, "v3", 3]
-- [4, "v4", 4]
-- [5, "v5", 5]
-- [8, "eight!", 160]

MERGE INTO lake.merged.cow t USING (SELECT 100L AS key, 'x' AS v UNION ALL SELECT 101L, 'y') s ON t.id = s.key WHEN NOT MATCHED AND s.v = 'x' THEN INSERT (id, v) VALUES (s.key, upper(s.v)) WHEN NOT MATCHED THEN INSERT (id, n, v) VALUES (s.key, 5, 'other');
-- rows: 0

SELECT * FROM lake.merged.cow ORDER BY id;
-- rows: 8
-- [0, "v0", 0]
-- [1, "one", 0]
-- [3, "v3", 3]
-- [4, "v4", 4]
-- [5, "v5", 5]
-- [8, "eight!", 160]
-- [100, "X", null]
-- [101, "other", 5]

MERGE INTO lake.merged.cow t USING lake.merged.changes s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND t.id > 99 THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t.v = 'left';
-- rows: 0

SELECT * FROM lake.merged.cow ORDER BY id;
-- rows: 6
-- [0, "left", 0]
-- [1, "one", 0]
-- [3, "left", 3]
-- [4, "left", 4]
-- [5, "left", 5]
-- [8, "eight!", 160]

MERGE INTO lake.merged.cow t USING (SELECT 1L AS id UNION ALL SELECT 1L) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.v = 'twice';
-- error: MERGE_CARDINALITY_VIOLATION

MERGE INTO lake.merged.cow t USING (SELECT 1L AS id UNION ALL SELECT 1L) s ON t.id = s.id WHEN MATCHED THEN DELETE;
-- rows: 0

SELECT * FROM lake.merged.cow ORDER BY id;
-- rows: 5
-- [0, "left", 0]
-- [3, "left", 3]
-- [4, "left", 4]
-- [5, "left", 5]
-- [8, "eight!", 160]

MERGE INTO lake.merged.cow t USING lake.merged.changes s ON false WHEN NOT MATCHED THEN INSERT *;
-- rows: 0

SELECT id, count(*) FROM lake.merged.cow GROUP BY id ORDER BY id;
-- rows: 7
-- [0, 1]
-- [1, 1]
-- [2, 1]
-- [3, 1]
-- [4, 1]
-- [5, 1]
-- [8, 2]

MERGE INTO lake.merged.cow t USING lake.merged.changes s ON t.id = s.id AND t.id > 1000 WHEN MATCHED THEN DELETE;
-- rows: 0

SELECT count(*) FROM lake.merged.cow;
-- rows: 1
-- [8]

MERGE INTO lake.merged.cow t USING lake.merged.changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.nothing = 1;
-- error: UNRESOLVED_COLUMN

MERGE INTO lake.merged.cow t USING lake.merged.changes s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, nothing) VALUES (1, 2);
-- error: UNRESOLVED_COLUMN

MERGE INTO lake.merged.cow t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *;
-- error: any

MERGE INTO lake.merged.nothing t USING lake.merged.changes s ON t.id = s.id WHEN MATCHED THEN DELETE;
-- error: TABLE_OR_VIEW_NOT_FOUND

CREATE TABLE lake.merged.mor (id BIGINT, kind STRING, s STRUCT<a: INT, b: INT>) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES ('format-version' = '2', 'write.merge.mode' = 'merge-on-read');
-- rows: 0

INSERT INTO lake.merged.mor SELECT id, if(id % 2 = 0, 'a', 'b'), named_struct('a', 1, 'b', CAST(id AS INT)) FROM range(6);
-- rows: 0

MERGE INTO lake.merged.mor t USING (SELECT id, concat('k', id) AS kind FROM range(4, 8)) u ON t.id = u.id WHEN MATCHED AND t.id = 4 THEN UPDATE SET t.s.a = 9 WHEN MATCHED THEN UPDATE SET t.kind = u.kind WHEN NOT MATCHED THEN INSERT (id, kind, s) VALUES (u.id, u.kind, NULL) WHEN NOT MATCHED BY SOURCE AND t.id < 2 THEN DELETE;
-- rows: 0

SELECT * FROM lake.merged.mor ORDER BY id;
-- rows: 6
-- [2, "a", {"a": 1, "b": 2}]
-- [3, "b", {"a": 1, "b": 3}]
-- [4, "a", {"a": 9, "b": 4}]
-- [5, "k5", {"a": 1, "b": 5}]
-- [6, "k6", null]
-- [7, "k7", null]

SELECT content, sum(record_count) FROM lake.merged.mor.files GROUP BY content ORDER BY content;
-- rows: 2
-- [0, 10]
-- [1, 4]

SELECT operation FROM lake.merged.mor.snapshots ORDER BY committed_at DESC LIMIT 1;
-- rows: 1
-- ["overwrite"]

MERGE INTO lake.merged.mor t USING (SELECT 2L AS id UNION ALL SELECT 2L) u ON t.id = u.id WHEN MATCHED THEN UPDATE SET t.kind = 'twice';
-- error: MERGE_CARDINALITY_VIOLATION

MERGE INTO lake.merged.mor t USING lake.merged.mor u ON t.id = u.id + 1 WHEN MATCHED THEN UPDATE SET t.kind = u.kind;
-- rows: 0

SELECT id, kind FROM lake.merged.mor ORDER BY id;
-- rows: 6
-- [2, "a"]
-- [3, "a"]
-- [4, "b"]
-- [5, "a"]
-- [6, "k5"]
-- [7, "k6"]

CREATE TABLE lake.merged.dv (id BIGINT, v STRING) USING iceberg TBLPROPERTIES ('format-version' = '3', 'write.merge.mode' = 'merge-on-read');
-- rows: 0

INSERT INTO lake.merged.dv SELECT /*+ COALESCE(1) */ id, 'old' FROM range(4);
-- rows: 0

MERGE INTO lake.merged.dv t USING (SELECT id, 'new' AS v FROM range(2, 6)) s ON t.id = s.id WHEN MATCHED AND t.id = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
-- rows: 0

SELECT * FROM lake.merged.dv ORDER BY id;
-- rows: 5
-- [0, "old"]
-- [1, "old"]
-- [2, "new"]
-- [4, "new"]
-- [5, "new"]

SELECT id, _row_id, _last_updated_sequence_number FROM lake.merged.dv WHERE id < 4 ORDER BY id;
-- rows: 3
-- [0, 0, 1]
-- [1, 1, 1]
-- [2, 2, 2]

SELECT content, file_format, sum(record_count) FROM lake.merged.dv.files GROUP BY 1, 2 ORDER BY 1;
-- rows: 2
-- [0, "PARQUET", 7]
-- [1, "PUFFIN", 2]
