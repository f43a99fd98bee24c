-- Iceberg's own statements: partition fields, write order and distribution, identifier fields.

CREATE NAMESPACE lake.layouts;
-- rows: 0

CREATE TABLE lake.layouts.t (id BIGINT NOT NULL, kind STRING NOT NULL, at TIMESTAMP, v INT) USING iceberg TBLPROPERTIES ('format-version' = '2');
-- rows: 0

INSERT INTO lake.layouts.t SELECT /*+ COALESCE(1) */ id, if(id % 2 = 0, 'a', 'b'), TIMESTAMP'2024-01-01 00:00:00', 1 FROM range(4);
-- rows: 0

ALTER TABLE lake.layouts.t ADD PARTITION FIELD kind;
-- rows: 0

INSERT INTO lake.layouts.t VALUES (10, 'a', TIMESTAMP'2024-01-02 00:00:00', 2);
-- rows: 0

SELECT spec_id, partition, record_count FROM lake.layouts.t.files ORDER BY spec_id;
-- rows: 2
-- [0, {"kind": null}, 4]
-- [1, {"kind": "a"}, 1]

ALTER TABLE lake.layouts.t ADD PARTITION FIELD bucket(4, id) AS shard;
-- rows: 0

INSERT INTO lake.layouts.t VALUES (11, 'b', TIMESTAMP'2024-01-03 00:00:00', 3);
-- rows: 0

SELECT spec_id, partition, record_count FROM lake.layouts.t.files ORDER BY spec_id;
-- rows: 3
-- [0, {"kind": null, "shard": null}, 4]
-- [1, {"kind": "a", "shard": null}, 1]
-- [2, {"kind": "b", "shard": 3}, 1]

SELECT id FROM lake.layouts.t WHERE kind = 'b' ORDER BY id;
-- rows: 3
-- [1]
-- [3]
-- [11]

ALTER TABLE lake.layouts.t DROP PARTITION FIELD shard;
-- rows: 0

ALTER TABLE lake.layouts.t REPLACE PARTITION FIELD kind WITH days(at) AS day;
-- rows: 0

INSERT INTO lake.layouts.t VALUES (12, 'c', TIMESTAMP'2024-01-04 00:00:00', 4);
-- rows: 0

SELECT spec_id, partition.day, record_count FROM lake.layouts.t.files ORDER BY spec_id;
-- rows: 4
-- [0, null, 4]
-- [1, null, 1]
-- [2, null, 1]
-- [3, "2024-01-04", 1]

SELECT id FROM lake.layouts.t WHERE at >= TIMESTAMP'2024-01-03 00:00:00' ORDER BY id;
-- rows: 2
-- [11]
-- [12]

SELECT count(*) FROM lake.layouts.t;
-- rows: 1
-- [7]

DELETE FROM lake.layouts.t WHERE kind = 'a';
-- rows: 0

SELECT id, kind FROM lake.layouts.t ORDER BY id;
-- rows: 4
-- [1, "b"]
-- [3, "b"]
-- [11, "b"]
-- [12, "c"]

ALTER TABLE lake.layouts.t ADD PARTITION FIELD days(at);
-- error: any

ALTER TABLE lake.layouts.t DROP PARTITION FIELD nothing;
-- error: any

ALTER TABLE lake.layouts.t ADD PARTITION FIELD bucket(4, nothing);
-- error: any

ALTER TABLE lake.layouts.t DROP PARTITION FIELD days(at);
-- rows: 0

ALTER TABLE lake.layouts.t ADD PARTITION FIELD truncate(2, kind);
-- rows: 0

DESCRIBE lake.layouts.t;
-- rows: 7
-- ["id", "bigint", null]
-- ["kind", "string", null]
-- ["at", "timestamp", null]
-- ["v", "int", null]
-- ["", "", ""]
-- ["# Partitioning", "", ""]
-- ["Part 0", "truncate(2, kind)", ""]

SELECT kind, count(*) FROM lake.layouts.t GROUP BY kind ORDER BY kind;
-- rows: 2
-- ["b", 3]
-- ["c", 1]

ALTER TABLE lake.layouts.t WRITE ORDERED BY kind, id DESC NULLS LAST;
-- rows: 0

SHOW TBLPROPERTIES lake.layouts.t ('sort-order');
-- rows: 1
-- ["sort-order", "kind ASC NULLS FIRST, id DESC NULLS LAST"]

SHOW TBLPROPERTIES lake.layouts.t ('write.distribution-mode');
-- rows: 1
-- ["write.distribution-mode", "range"]

INSERT INTO lake.layouts.t SELECT id, 'zz', NULL, 5 FROM range(20, 25);
-- rows: 0

SELECT id FROM lake.layouts.t WHERE v = 5 ORDER BY _file, _pos;
-- rows: 5
-- [24]
-- [23]
-- [22]
-- [21]
-- [20]

ALTER TABLE lake.layouts.t WRITE LOCALLY ORDERED BY id;
-- rows: 0

SHOW TBLPROPERTIES lake.layouts.t ('sort-order');
-- rows: 1
-- ["sort-order", "id ASC NULLS FIRST"]

SHOW TBLPROPERTIES lake.layouts.t ('write.distribution-mode');
-- rows: 1
-- ["write.distribution-mode", "range"]

ALTER TABLE lake.layouts.t WRITE DISTRIBUTED BY PARTITION;
-- rows: 0

SHOW TBLPROPERTIES lake.layouts.t ('write.distribution-mode');
-- rows: 1
-- ["write.distribution-mode", "hash"]

ALTER TABLE lake.layouts.t WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY bucket(4, id), kind ASC NULLS LAST;
-- rows: 0

SHOW TBLPROPERTIES lake.layouts.t ('sort-order');
-- rows: 1
-- ["sort-order", "bucket(4, id) ASC NULLS FIRST, kind ASC NULLS LAST"]

ALTER TABLE lake.layouts.t WRITE ORDERED BY nothing;
-- error: any

ALTER TABLE lake.layouts.t WRITE UNORDERED;
-- rows: 0

SHOW TBLPROPERTIES lake.layouts.t ('write.distribution-mode');
-- rows: 1
-- ["write.distribution-mode", "none"]

ALTER TABLE lake.layouts.t SET IDENTIFIER FIELDS id;
-- rows: 0

SHOW TBLPROPERTIES lake.layouts.t ('identifier-fields');
-- rows: 1
-- ["identifier-fields", "[id]"]

ALTER TABLE lake.layouts.t SET IDENTIFIER FIELDS id, kind;
-- rows: 0

ALTER TABLE lake.layouts.t DROP IDENTIFIER FIELDS kind;
-- rows: 0

SHOW TBLPROPERTIES lake.layouts.t ('identifier-fields');
-- rows: 1
-- ["identifier-fields", "[id]"]

ALTER TABLE lake.layouts.t DROP COLUMN id;
-- error: any

ALTER TABLE lake.layouts.t SET IDENTIFIER FIELDS v;
-- error: any

ALTER TABLE lake.layouts.t SET IDENTIFIER FIELDS nothing;
-- error: any

ALTER TABLE lake.layouts.t DROP IDENTIFIER FIELDS kind;
-- error: any

ALTER TABLE lake.layouts.nothing ADD PARTITION FIELD kind;
-- error: any
