-- Metadata columns: where a row is, its partition and spec, and who it is in version 3.

CREATE NAMESPACE lake.hidden;
-- rows: 0

CREATE TABLE lake.hidden.t (id BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES ('format-version' = '2');
-- rows: 0

INSERT INTO lake.hidden.t SELECT /*+ COALESCE(1) */ id, 'a' FROM range(3);
-- rows: 0

INSERT INTO lake.hidden.t VALUES (10, 'b');
-- rows: 0

SELECT id, _pos, _spec_id, _partition FROM lake.hidden.t ORDER BY id;
-- rows: 4
-- [0, 0, 0, {"kind": "a"}]
-- [1, 1, 0, {"kind": "a"}]
-- [2, 2, 0, {"kind": "a"}]
-- [10, 0, 0, {"kind": "b"}]

SELECT count(DISTINCT _file) FROM lake.hidden.t;
-- rows: 1
-- [2]

SELECT t.id FROM lake.hidden.t t JOIN lake.hidden.t.files f ON t._file = f.file_path WHERE f.record_count = 1;
-- rows: 1
-- [10]

SELECT id FROM lake.hidden.t WHERE _pos = 2;
-- rows: 1
-- [2]

SELECT id FROM lake.hidden.t WHERE _partition.kind = 'b';
-- rows: 1
-- [10]

SELECT _partition.kind, count(*) FROM lake.hidden.t GROUP BY 1 ORDER BY 1;
-- rows: 2
-- ["a", 3]
-- ["b", 1]

ALTER TABLE lake.hidden.t ADD PARTITION FIELD bucket(2, id);
-- rows: 0

INSERT INTO lake.hidden.t VALUES (11, 'b');
-- rows: 0

SELECT id, _spec_id, _partition.kind FROM lake.hidden.t ORDER BY id;
-- rows: 5
-- [0, 0, "a"]
-- [1, 0, "a"]
-- [2, 0, "a"]
-- [10, 0, "b"]
-- [11, 1, "b"]

SELECT count(*) FROM lake.hidden.t WHERE _spec_id = 1;
-- rows: 1
-- [1]

SELECT * FROM lake.hidden.t ORDER BY id;
-- rows: 5
-- [0, "a"]
-- [1, "a"]
-- [2, "a"]
-- [10, "b"]
-- [11, "b"]

CREATE TABLE lake.hidden.lines (id BIGINT, v STRING) USING iceberg TBLPROPERTIES ('format-version' = '3', 'write.update.mode' = 'merge-on-read', 'write.delete.mode' = 'merge-on-read');
-- rows: 0

INSERT INTO lake.hidden.lines SELECT /*+ COALESCE(1) */ id, 'x' FROM range(4);
-- rows: 0

INSERT INTO lake.hidden.lines VALUES (10, 'y');
-- rows: 0

SELECT id, _row_id, _last_updated_sequence_number FROM lake.hidden.lines ORDER BY id;
-- rows: 5
-- [0, 0, 1]
-- [1, 1, 1]
-- [2, 2, 1]
-- [3, 3, 1]
-- [10, 4, 2]

SELECT id FROM lake.hidden.lines WHERE _row_id = 4;
-- rows: 1
-- [10]

-- only icefloe: Java 1.10.2 fails to aggregate metadata columns
SELECT max(_row_id), max(_last_updated_sequence_number) FROM lake.hidden.lines;
-- rows: 1
-- [4, 2]

DELETE FROM lake.hidden.lines WHERE id = 1;
-- rows: 0

SELECT id, _row_id, _last_updated_sequence_number FROM lake.hidden.lines ORDER BY id;
-- rows: 4
-- [0, 0, 1]
-- [2, 2, 1]
-- [3, 3, 1]
-- [10, 4, 2]

UPDATE lake.hidden.lines SET v = 'z' WHERE id = 2;
-- rows: 0

SELECT id, v, _row_id, _last_updated_sequence_number FROM lake.hidden.lines ORDER BY id;
-- rows: 4
-- [0, "x", 0, 1]
-- [2, "z", 2, 4]
-- [3, "x", 3, 1]
-- [10, "y", 4, 2]

SELECT id FROM lake.hidden.lines WHERE _last_updated_sequence_number > 2;
-- rows: 1
-- [2]
