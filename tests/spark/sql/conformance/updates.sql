-- UPDATE, copy-on-write and merge-on-read, versions 2 and 3.

CREATE NAMESPACE lake.updated;
-- rows: 0

CREATE TABLE lake.updated.cow (id BIGINT, kind STRING, v INT, s STRUCT<a: INT, b: STRING>) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES ('format-version' = '2');
-- rows: 0

INSERT INTO lake.updated.cow SELECT /*+ COALESCE(1) */ id, 'a', CAST(id AS INT), named_struct('a', 1, 'b', 'x') FROM range(4);
-- rows: 0

INSERT INTO lake.updated.cow SELECT /*+ COALESCE(1) */ id, 'b', CAST(id AS INT), NULL FROM range(4, 8);
-- rows: 0

UPDATE lake.updated.cow SET v = v + 100 WHERE id = 1;
-- rows: 0

SELECT id, kind, v FROM lake.updated.cow ORDER BY id;
-- rows: 8
-- [0, "a", 0]
-- [1, "a", 101]
-- [2, "a", 2]
-- [3, "a", 3]
-- [4, "b", 4]
-- [5, "b", 5]
-- [6, "b", 6]
-- [7, "b", 7]

SELECT content, sum(record_count) FROM lake.updated.cow.files GROUP BY content ORDER BY content;
-- rows: 1
-- [0, 8]

SELECT operation FROM lake.updated.cow.snapshots ORDER BY committed_at DESC LIMIT 1;
-- rows: 1
-- ["overwrite"]

UPDATE lake.updated.cow SET s.a = 5, v = NULL WHERE id IN (0, 2);
-- rows: 0

SELECT id, v, s FROM lake.updated.cow ORDER BY id;
-- rows: 8
-- [0, null, {"a": 5, "b": "x"}]
-- [1, 101, {"a": 1, "b": "x"}]
-- [2, null, {"a": 5, "b": "x"}]
-- [3, 3, {"a": 1, "b": "x"}]
-- [4, 4, null]
-- [5, 5, null]
-- [6, 6, null]
-- [7, 7, null]

UPDATE lake.updated.cow SET kind = 'c' WHERE id = 5;
-- rows: 0

SELECT id, kind FROM lake.updated.cow WHERE kind IN ('b', 'c') ORDER BY id;
-- rows: 4
-- [4, "b"]
-- [5, "c"]
-- [6, "b"]
-- [7, "b"]

UPDATE lake.updated.cow SET v = id * 2, id = v WHERE id = 6;
-- rows: 0

SELECT id, v FROM lake.updated.cow WHERE kind = 'b' ORDER BY id;
-- rows: 3
-- [4, 4]
-- [6, 12]
-- [7, 7]

UPDATE lake.updated.cow SET v = 0 WHERE id > 1000;
-- rows: 0

UPDATE lake.updated.cow SET v = -1;
-- rows: 0

SELECT DISTINCT v FROM lake.updated.cow;
-- rows: 1
-- [-1]

UPDATE lake.updated.cow AS t SET v = 7 WHERE t.id IN (SELECT id FROM lake.updated.cow WHERE kind = 'a');
-- rows: 0

SELECT kind, sum(v) FROM lake.updated.cow GROUP BY kind ORDER BY kind;
-- rows: 3
-- ["a", 28]
-- ["b", -3]
-- ["c", -1]

UPDATE lake.updated.cow SET nothing = 1;
-- error: UNRESOLVED_COLUMN

UPDATE lake.updated.cow SET v = 1, v = 2;
-- error: any

UPDATE lake.updated.cow SET v = true;
-- error: any

UPDATE lake.updated.nothing SET v = 1;
-- error: TABLE_OR_VIEW_NOT_FOUND

SELECT kind, sum(v) FROM lake.updated.cow GROUP BY kind ORDER BY kind;
-- rows: 3
-- ["a", 28]
-- ["b", -3]
-- ["c", -1]

CREATE TABLE lake.updated.mor (id BIGINT, kind STRING, v INT) USING iceberg TBLPROPERTIES ('format-version' = '2', 'write.update.mode' = 'merge-on-read');
-- rows: 0

INSERT INTO lake.updated.mor SELECT /*+ COALESCE(1) */ id, if(id % 2 = 0, 'a', 'b'), CAST(id AS INT) FROM range(8);
-- rows: 0

UPDATE lake.updated.mor SET v = v * 10 WHERE kind = 'a' AND id > 2;
-- rows: 0

SELECT * FROM lake.updated.mor ORDER BY id;
-- rows: 8
-- [0, "a", 0]
-- [1, "b", 1]
-- [2, "a", 2]
-- [3, "b", 3]
-- [4, "a", 40]
-- [5, "b", 5]
-- [6, "a", 60]
-- [7, "b", 7]

SELECT content, sum(record_count) FROM lake.updated.mor.files GROUP BY content ORDER BY content;
-- rows: 2
-- [0, 10]
-- [1, 2]

UPDATE lake.updated.mor SET v = v + 1 WHERE v >= 40;
-- rows: 0

SELECT * FROM lake.updated.mor ORDER BY id;
-- rows: 8
-- [0, "a", 0]
-- [1, "b", 1]
-- [2, "a", 2]
-- [3, "b", 3]
-- [4, "a", 41]
-- [5, "b", 5]
-- [6, "a", 61]
-- [7, "b", 7]

UPDATE lake.updated.mor SET v = (SELECT max(id) FROM lake.updated.mor) WHERE id = 1;
-- rows: 0

SELECT id, v FROM lake.updated.mor WHERE id < 3 ORDER BY id;
-- rows: 3
-- [0, 0]
-- [1, 7]
-- [2, 2]

SELECT operation FROM lake.updated.mor.snapshots ORDER BY committed_at DESC LIMIT 1;
-- rows: 1
-- ["overwrite"]

CREATE TABLE lake.updated.dv (id BIGINT, v INT) USING iceberg TBLPROPERTIES ('format-version' = '3', 'write.update.mode' = 'merge-on-read');
-- rows: 0

INSERT INTO lake.updated.dv SELECT /*+ COALESCE(1) */ id, CAST(id AS INT) FROM range(6);
-- rows: 0

UPDATE lake.updated.dv SET v = -v WHERE id % 2 = 1;
-- rows: 0

SELECT * FROM lake.updated.dv ORDER BY id;
-- rows: 6
-- [0, 0]
-- [1, -1]
-- [2, 2]
-- [3, -3]
-- [4, 4]
-- [5, -5]

SELECT id, _row_id, _last_updated_sequence_number FROM lake.updated.dv ORDER BY id;
-- rows: 6
-- [0, 0, 1]
-- [1, 1, 2]
-- [2, 2, 1]
-- [3, 3, 2]
-- [4, 4, 1]
-- [5, 5, 2]

UPDATE lake.updated.dv SET id = id + 10 WHERE id IN (1, 2);
-- rows: 0

SELECT id, v, _row_id, _last_updated_sequence_number FROM lake.updated.dv ORDER BY id;
-- rows: 6
-- [0, 0, 0, 1]
-- [3, -3, 3, 2]
-- [4, 4, 4, 1]
-- [5, -5, 5, 2]
-- [11, -1, 1, 3]
-- [12, 2, 2, 3]

SELECT content, file_format, count(*) FROM lake.updated.dv.files WHERE content = 1 GROUP BY 1, 2;
-- rows: 1
-- [1, "PUFFIN", 2]

CREATE TABLE lake.updated.cow3 (id BIGINT, v INT) USING iceberg TBLPROPERTIES ('format-version' = '3');
-- rows: 0

INSERT INTO lake.updated.cow3 SELECT /*+ COALESCE(1) */ id, CAST(id AS INT) FROM range(4);
-- rows: 0

UPDATE lake.updated.cow3 SET v = 50 WHERE id = 2;
-- rows: 0

SELECT id, v, _row_id, _last_updated_sequence_number FROM lake.updated.cow3 ORDER BY id;
-- rows: 4
-- [0, 0, 0, 1]
-- [1, 1, 1, 1]
-- [2, 50, 2, 2]
-- [3, 3, 3, 1]
