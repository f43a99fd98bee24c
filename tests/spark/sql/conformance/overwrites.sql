-- INSERT OVERWRITE, static and dynamic, and TRUNCATE.

CREATE NAMESPACE lake.overwritten;
-- rows: 0

CREATE TABLE lake.overwritten.t (id INT, kind STRING) USING iceberg PARTITIONED BY (kind);
-- rows: 0

INSERT INTO lake.overwritten.t VALUES (1, 'a'), (2, 'a'), (3, 'b'), (4, 'c'), (5, NULL);
-- rows: 0

INSERT OVERWRITE lake.overwritten.t PARTITION (kind = 'a') VALUES (10);
-- rows: 0

SELECT * FROM lake.overwritten.t ORDER BY id;
-- rows: 4
-- [3, "b"]
-- [4, "c"]
-- [5, null]
-- [10, "a"]

SELECT operation, summary['added-records'], summary['deleted-records'] FROM lake.overwritten.t.snapshots ORDER BY committed_at DESC LIMIT 1;
-- rows: 1
-- ["overwrite", "1", "2"]

INSERT OVERWRITE lake.overwritten.t PARTITION (kind = 'new') SELECT 11;
-- rows: 0

SELECT * FROM lake.overwritten.t ORDER BY id;
-- rows: 5
-- [3, "b"]
-- [4, "c"]
-- [5, null]
-- [10, "a"]
-- [11, "new"]

INSERT OVERWRITE lake.overwritten.t PARTITION (kind = 'b') SELECT 1 WHERE false;
-- rows: 0

SELECT * FROM lake.overwritten.t ORDER BY id;
-- rows: 4
-- [4, "c"]
-- [5, null]
-- [10, "a"]
-- [11, "new"]

SET spark.sql.sources.partitionOverwriteMode = dynamic;
-- rows: 1
-- ["spark.sql.sources.partitionOverwriteMode", "dynamic"]

INSERT OVERWRITE lake.overwritten.t VALUES (20, 'a'), (21, 'd');
-- rows: 0

SELECT * FROM lake.overwritten.t ORDER BY id;
-- rows: 5
-- [4, "c"]
-- [5, null]
-- [11, "new"]
-- [20, "a"]
-- [21, "d"]

SELECT operation, summary['replace-partitions'] FROM lake.overwritten.t.snapshots ORDER BY committed_at DESC LIMIT 1;
-- rows: 1
-- ["overwrite", "true"]

INSERT OVERWRITE lake.overwritten.t VALUES (22, NULL);
-- rows: 0

SELECT * FROM lake.overwritten.t ORDER BY id;
-- rows: 5
-- [4, "c"]
-- [11, "new"]
-- [20, "a"]
-- [21, "d"]
-- [22, null]

INSERT OVERWRITE lake.overwritten.t PARTITION (kind) SELECT id + 100, kind FROM lake.overwritten.t WHERE kind = 'd';
-- rows: 0

SELECT * FROM lake.overwritten.t ORDER BY id;
-- rows: 5
-- [4, "c"]
-- [11, "new"]
-- [20, "a"]
-- [22, null]
-- [121, "d"]

INSERT OVERWRITE lake.overwritten.t SELECT id, kind FROM lake.overwritten.t WHERE id > 10000;
-- rows: 0

SELECT * FROM lake.overwritten.t ORDER BY id;
-- rows: 5
-- [4, "c"]
-- [11, "new"]
-- [20, "a"]
-- [22, null]
-- [121, "d"]

SET spark.sql.sources.partitionOverwriteMode = static;
-- rows: 1
-- ["spark.sql.sources.partitionOverwriteMode", "static"]

INSERT OVERWRITE lake.overwritten.t SELECT id, kind FROM lake.overwritten.t WHERE id < 20;
-- rows: 0

SELECT * FROM lake.overwritten.t ORDER BY id;
-- rows: 2
-- [4, "c"]
-- [11, "new"]

SELECT content, count(*), sum(record_count) FROM lake.overwritten.t.files GROUP BY content;
-- rows: 1
-- [0, 2, 2]

INSERT OVERWRITE lake.overwritten.t VALUES (1, 'z');
-- rows: 0

SELECT * FROM lake.overwritten.t ORDER BY id;
-- rows: 1
-- [1, "z"]

INSERT OVERWRITE lake.overwritten.t VALUES (1);
-- error: INSERT_COLUMN_ARITY_MISMATCH

SELECT * FROM lake.overwritten.t;
-- rows: 1
-- [1, "z"]

TRUNCATE TABLE lake.overwritten.t;
-- rows: 0

SELECT count(*) FROM lake.overwritten.t;
-- rows: 1
-- [0]

SELECT operation FROM lake.overwritten.t.snapshots ORDER BY committed_at DESC LIMIT 1;
-- rows: 1
-- ["delete"]

-- Partitions by transforms.
CREATE TABLE lake.overwritten.days (id INT, at TIMESTAMP) USING iceberg PARTITIONED BY (days(at));
-- rows: 0

INSERT INTO lake.overwritten.days VALUES (1, TIMESTAMP'2024-01-01 01:00:00'), (2, TIMESTAMP'2024-01-01 02:00:00'), (3, TIMESTAMP'2024-01-02 01:00:00');
-- rows: 0

SET spark.sql.sources.partitionOverwriteMode = dynamic;
-- rows: 1
-- ["spark.sql.sources.partitionOverwriteMode", "dynamic"]

INSERT OVERWRITE lake.overwritten.days VALUES (4, TIMESTAMP'2024-01-01 09:00:00');
-- rows: 0

SELECT id FROM lake.overwritten.days ORDER BY id;
-- rows: 2
-- [3]
-- [4]

SET spark.sql.sources.partitionOverwriteMode = static;
-- rows: 1
-- ["spark.sql.sources.partitionOverwriteMode", "static"]

CREATE TABLE lake.overwritten.plain (id INT) USING iceberg;
-- rows: 0

INSERT INTO lake.overwritten.plain VALUES (1), (2);
-- rows: 0

SET spark.sql.sources.partitionOverwriteMode = dynamic;
-- rows: 1
-- ["spark.sql.sources.partitionOverwriteMode", "dynamic"]

INSERT OVERWRITE lake.overwritten.plain VALUES (3);
-- rows: 0

SELECT * FROM lake.overwritten.plain;
-- rows: 1
-- [3]

SET spark.sql.sources.partitionOverwriteMode = static;
-- rows: 1
-- ["spark.sql.sources.partitionOverwriteMode", "static"]
