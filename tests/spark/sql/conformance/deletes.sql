-- DELETE: whole files by metadata, copy-on-write, position deletes and deletion vectors; `files` counts where the format fixes them.

CREATE NAMESPACE lake.deleted;
-- rows: 0

CREATE TABLE lake.deleted.cow (id BIGINT, kind STRING, v INT) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES ('format-version' = '2');
-- rows: 0

INSERT INTO lake.deleted.cow SELECT /*+ COALESCE(1) */ id, 'a', CAST(id AS INT) FROM range(5);
-- rows: 0

INSERT INTO lake.deleted.cow SELECT /*+ COALESCE(1) */ id, 'b', if(id = 7, NULL, CAST(id AS INT)) FROM range(5, 10);
-- rows: 0

DELETE FROM lake.deleted.cow WHERE kind = 'a' AND id < 0;
-- rows: 0

SELECT count(*) FROM lake.deleted.cow;
-- rows: 1
-- [10]

DELETE FROM lake.deleted.cow WHERE id = 2;
-- rows: 0

SELECT id FROM lake.deleted.cow ORDER BY id;
-- rows: 9
-- [0]
-- [1]
-- [3]
-- [4]
-- [5]
-- [6]
-- [7]
-- [8]
-- [9]

SELECT content, count(*), sum(record_count) FROM lake.deleted.cow.files GROUP BY content ORDER BY content;
-- rows: 1
-- [0, 2, 9]

SELECT operation FROM lake.deleted.cow.snapshots ORDER BY committed_at DESC LIMIT 1;
-- rows: 1
-- ["overwrite"]

DELETE FROM lake.deleted.cow WHERE v > 7;
-- rows: 0

SELECT id FROM lake.deleted.cow ORDER BY id;
-- rows: 7
-- [0]
-- [1]
-- [3]
-- [4]
-- [5]
-- [6]
-- [7]

DELETE FROM lake.deleted.cow WHERE v <> 5 AND kind = 'b';
-- rows: 0

SELECT id FROM lake.deleted.cow ORDER BY id;
-- rows: 6
-- [0]
-- [1]
-- [3]
-- [4]
-- [5]
-- [7]

DELETE FROM lake.deleted.cow WHERE kind = 'a';
-- rows: 0

SELECT id FROM lake.deleted.cow ORDER BY id;
-- rows: 2
-- [5]
-- [7]

SELECT operation, summary['deleted-data-files'], summary['deleted-records'] FROM lake.deleted.cow.snapshots ORDER BY committed_at DESC LIMIT 1;
-- rows: 1
-- ["delete", "1", "4"]

DELETE FROM lake.deleted.cow;
-- rows: 0

SELECT count(*) FROM lake.deleted.cow;
-- rows: 1
-- [0]

SELECT count(*) FROM lake.deleted.cow.files;
-- rows: 1
-- [0]

CREATE TABLE lake.deleted.mor (id BIGINT, kind STRING, v INT, s STRUCT<a: INT>) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read');
-- rows: 0

INSERT INTO lake.deleted.mor SELECT /*+ COALESCE(1) */ id, 'a', CAST(id AS INT), named_struct('a', CAST(id AS INT)) FROM range(5);
-- rows: 0

INSERT INTO lake.deleted.mor SELECT /*+ COALESCE(1) */ id, 'b', if(id = 7, NULL, CAST(id AS INT)), NULL FROM range(5, 10);
-- rows: 0

DELETE FROM lake.deleted.mor WHERE id = 2;
-- rows: 0

SELECT id FROM lake.deleted.mor ORDER BY id;
-- rows: 9
-- [0]
-- [1]
-- [3]
-- [4]
-- [5]
-- [6]
-- [7]
-- [8]
-- [9]

SELECT content, count(*), sum(record_count) FROM lake.deleted.mor.files GROUP BY content ORDER BY content;
-- rows: 2
-- [0, 2, 10]
-- [1, 1, 1]

DELETE FROM lake.deleted.mor WHERE id IN (3, 6, 99);
-- rows: 0

SELECT id FROM lake.deleted.mor ORDER BY id;
-- rows: 7
-- [0]
-- [1]
-- [4]
-- [5]
-- [7]
-- [8]
-- [9]

DELETE FROM lake.deleted.mor WHERE v IS NULL;
-- rows: 0

SELECT id, v FROM lake.deleted.mor ORDER BY id;
-- rows: 6
-- [0, 0]
-- [1, 1]
-- [4, 4]
-- [5, 5]
-- [8, 8]
-- [9, 9]

DELETE FROM lake.deleted.mor WHERE s.a = 4;
-- rows: 0

DELETE FROM lake.deleted.mor WHERE v + id = 10 OR id % 4 = 1 AND kind = 'a';
-- rows: 0

SELECT id FROM lake.deleted.mor ORDER BY id;
-- rows: 3
-- [0]
-- [8]
-- [9]

SELECT count(*), sum(v) FROM lake.deleted.mor WHERE kind = 'b';
-- rows: 1
-- [2, 17]

DELETE FROM lake.deleted.mor WHERE id IN (SELECT id + 1 FROM lake.deleted.mor WHERE id = 8);
-- rows: 0

SELECT id FROM lake.deleted.mor ORDER BY id;
-- rows: 2
-- [0]
-- [8]

DELETE FROM lake.deleted.mor AS m WHERE EXISTS (SELECT 1 FROM (SELECT 8L AS id) s WHERE s.id = m.id);
-- rows: 0

SELECT id FROM lake.deleted.mor ORDER BY id;
-- rows: 1
-- [0]

DELETE FROM lake.deleted.mor WHERE kind = 'a';
-- rows: 0

SELECT operation, summary['total-records'] FROM lake.deleted.mor.snapshots ORDER BY committed_at DESC LIMIT 1;
-- rows: 1
-- ["delete", "5"]

DELETE FROM lake.deleted.mor WHERE nothing = 1;
-- error: UNRESOLVED_COLUMN

DELETE FROM lake.deleted.nothing WHERE id = 1;
-- error: TABLE_OR_VIEW_NOT_FOUND

CREATE TABLE lake.deleted.dv (id BIGINT, v STRING) USING iceberg TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read');
-- rows: 0

INSERT INTO lake.deleted.dv SELECT /*+ COALESCE(1) */ id, concat('v', id) FROM range(10);
-- rows: 0

DELETE FROM lake.deleted.dv WHERE id = 3;
-- rows: 0

SELECT content, file_format, record_count FROM lake.deleted.dv.files ORDER BY content;
-- rows: 2
-- [0, "PARQUET", 10]
-- [1, "PUFFIN", 1]

DELETE FROM lake.deleted.dv WHERE id > 6;
-- rows: 0

SELECT content, file_format, record_count FROM lake.deleted.dv.files ORDER BY content;
-- rows: 2
-- [0, "PARQUET", 10]
-- [1, "PUFFIN", 4]

SELECT id, v FROM lake.deleted.dv ORDER BY id;
-- rows: 6
-- [0, "v0"]
-- [1, "v1"]
-- [2, "v2"]
-- [4, "v4"]
-- [5, "v5"]
-- [6, "v6"]

SELECT count(*), min(id), max(id) FROM lake.deleted.dv;
-- rows: 1
-- [6, 0, 6]

DELETE FROM lake.deleted.dv WHERE v LIKE 'v%' AND id < 2;
-- rows: 0

SELECT count(*) FROM lake.deleted.dv;
-- rows: 1
-- [4]

INSERT INTO lake.deleted.dv VALUES (3, 'again');
-- rows: 0

SELECT id, v FROM lake.deleted.dv WHERE id = 3;
-- rows: 1
-- [3, "again"]

SELECT summary['added-dvs'], summary['removed-dvs'], summary['total-position-deletes'] FROM lake.deleted.dv.snapshots WHERE operation <> 'append' ORDER BY committed_at DESC LIMIT 1;
-- rows: 1
-- ["1", "1", "6"]
