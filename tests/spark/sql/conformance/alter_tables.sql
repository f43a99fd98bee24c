-- ALTER TABLE: columns, types, places, nullability, comments and properties; rows written before and after.

CREATE NAMESPACE lake.altered;
-- rows: 0

CREATE TABLE lake.altered.t (id INT NOT NULL, name STRING, f FLOAT, m DECIMAL(5,2), p STRUCT<x: INT, y: INT>, l ARRAY<STRUCT<a: INT>>, k MAP<STRING, STRUCT<v: INT>>) USING iceberg;
-- rows: 0

INSERT INTO lake.altered.t VALUES (1, 'one', 1.5, 1.25, named_struct('x', 1, 'y', 2), array(named_struct('a', 5)), map('q', named_struct('v', 9)));
-- rows: 0

ALTER TABLE lake.altered.t ADD COLUMN extra STRING;
-- rows: 0

SELECT id, extra FROM lake.altered.t;
-- rows: 1
-- [1, null]

ALTER TABLE lake.altered.t ADD COLUMNS (first_one INT COMMENT 'the first' FIRST, after_id STRING AFTER id);
-- rows: 0

DESCRIBE lake.altered.t;
-- rows: 10
-- ["first_one", "int", "the first"]
-- ["id", "int", null]
-- ["after_id", "string", null]
-- ["name", "string", null]
-- ["f", "float", null]
-- ["m", "decimal(5,2)", null]
-- ["p", "struct<x:int,y:int>", null]
-- ["l", "array<struct<a:int>>", null]
-- ["k", "map<string,struct<v:int>>", null]
-- ["extra", "string", null]

SELECT first_one, id, after_id, name FROM lake.altered.t;
-- rows: 1
-- [null, 1, null, "one"]

ALTER TABLE lake.altered.t ADD COLUMN p.z DOUBLE AFTER x;
-- rows: 0

SELECT p FROM lake.altered.t;
-- rows: 1
-- [{"x": 1, "z": null, "y": 2}]

ALTER TABLE lake.altered.t ADD COLUMN l.element.b STRING;
-- rows: 0

ALTER TABLE lake.altered.t ADD COLUMN k.value.w BIGINT;
-- rows: 0

SELECT l, k FROM lake.altered.t;
-- rows: 1
-- [[{"a": 5, "b": null}], [["q", {"v": 9, "w": null}]]]

INSERT INTO lake.altered.t VALUES (7, 2, 'aft', 'two', 2.5, 2.25, named_struct('x', 3, 'z', 0.5D, 'y', 4), array(named_struct('a', 6, 'b', 'bb')), map('q', named_struct('v', 8, 'w', 80L)), 'more');
-- rows: 0

SELECT * FROM lake.altered.t ORDER BY id;
-- rows: 2
-- [null, 1, null, "one", 1.5, "1.25", {"x": 1, "z": null, "y": 2}, [{"a": 5, "b": null}], [["q", {"v": 9, "w": null}]], null]
-- [7, 2, "aft", "two", 2.5, "2.25", {"x": 3, "z": 0.5, "y": 4}, [{"a": 6, "b": "bb"}], [["q", {"v": 8, "w": 80}]], "more"]

ALTER TABLE lake.altered.t RENAME COLUMN name TO label;
-- rows: 0

ALTER TABLE lake.altered.t RENAME COLUMN p.x TO xx;
-- rows: 0

SELECT id, label, p.xx FROM lake.altered.t ORDER BY id;
-- rows: 2
-- [1, "one", 1]
-- [2, "two", 3]

SELECT name FROM lake.altered.t;
-- error: UNRESOLVED_COLUMN

ALTER TABLE lake.altered.t ALTER COLUMN id TYPE BIGINT;
-- rows: 0

ALTER TABLE lake.altered.t ALTER COLUMN f TYPE DOUBLE;
-- rows: 0

ALTER TABLE lake.altered.t ALTER COLUMN m TYPE DECIMAL(10,2);
-- rows: 0

SELECT id, f, m FROM lake.altered.t ORDER BY id;
-- rows: 2
-- [1, 1.5, "1.25"]
-- [2, 2.5, "2.25"]

SELECT id FROM lake.altered.t WHERE id > 1 AND f > 2.0 AND m > 2;
-- rows: 1
-- [2]

INSERT INTO lake.altered.t VALUES (NULL, 10000000000, NULL, 'large', 3.25, 12345678.91, NULL, NULL, NULL, NULL);
-- rows: 0

SELECT id, label, f, m, extra, p FROM lake.altered.t ORDER BY id;
-- rows: 3
-- [1, "one", 1.5, "1.25", null, {"xx": 1, "z": null, "y": 2}]
-- [2, "two", 2.5, "2.25", "more", {"xx": 3, "z": 0.5, "y": 4}]
-- [10000000000, "large", 3.25, "12345678.91", null, null]

SELECT max(id), max(m) FROM lake.altered.t;
-- rows: 1
-- [10000000000, "12345678.91"]

ALTER TABLE lake.altered.t ALTER COLUMN id TYPE INT;
-- error: any

ALTER TABLE lake.altered.t ALTER COLUMN m TYPE DECIMAL(12,3);
-- error: any

ALTER TABLE lake.altered.t ALTER COLUMN label TYPE INT;
-- error: any

ALTER TABLE lake.altered.t ALTER COLUMN id DROP NOT NULL;
-- rows: 0

INSERT INTO lake.altered.t VALUES (NULL, NULL, NULL, 'no id', NULL, NULL, NULL, NULL, NULL, NULL);
-- rows: 0

SELECT label FROM lake.altered.t WHERE id IS NULL;
-- rows: 1
-- ["no id"]

ALTER TABLE lake.altered.t ALTER COLUMN label SET NOT NULL;
-- error: any

ALTER TABLE lake.altered.t ALTER COLUMN label COMMENT 'how it is called';
-- rows: 0

ALTER TABLE lake.altered.t ALTER COLUMN label FIRST;
-- rows: 0

ALTER TABLE lake.altered.t ALTER COLUMN first_one AFTER id;
-- rows: 0

DESCRIBE lake.altered.t;
-- rows: 10
-- ["label", "string", "how it is called"]
-- ["id", "bigint", null]
-- ["first_one", "int", "the first"]
-- ["after_id", "string", null]
-- ["f", "double", null]
-- ["m", "decimal(10,2)", null]
-- ["p", "struct<xx:int,z:double,y:int>", null]
-- ["l", "array<struct<a:int,b:string>>", null]
-- ["k", "map<string,struct<v:int,w:bigint>>", null]
-- ["extra", "string", null]

ALTER TABLE lake.altered.t DROP COLUMN extra;
-- rows: 0

ALTER TABLE lake.altered.t DROP COLUMNS (after_id, p.z);
-- rows: 0

SELECT * FROM lake.altered.t WHERE id = 2;
-- rows: 1
-- ["two", 2, 7, 2.5, "2.25", {"xx": 3, "y": 4}, [{"a": 6, "b": "bb"}], [["q", {"v": 8, "w": 80}]]]

ALTER TABLE lake.altered.t ADD COLUMN extra INT;
-- rows: 0

SELECT id, extra FROM lake.altered.t ORDER BY id NULLS FIRST;
-- rows: 4
-- [null, null]
-- [1, null]
-- [2, null]
-- [10000000000, null]

SELECT count(*) FROM lake.altered.t WHERE extra IS NULL;
-- rows: 1
-- [4]

ALTER TABLE lake.altered.t ADD COLUMN extra INT;
-- error: FIELD_ALREADY_EXISTS | FIELDS_ALREADY_EXISTS

ALTER TABLE lake.altered.t ADD COLUMN needed INT NOT NULL;
-- error: any

ALTER TABLE lake.altered.t DROP COLUMN nothing;
-- error: FIELD_NOT_FOUND | UNRESOLVED_COLUMN

ALTER TABLE lake.altered.t DROP COLUMN IF EXISTS nothing;
-- rows: 0

ALTER TABLE lake.altered.t RENAME COLUMN extra TO label;
-- error: FIELD_ALREADY_EXISTS | FIELDS_ALREADY_EXISTS

ALTER TABLE lake.altered.t SET TBLPROPERTIES ('a' = '1', 'b.c' = 'two');
-- rows: 0

SHOW TBLPROPERTIES lake.altered.t ('b.c');
-- rows: 1
-- ["b.c", "two"]

ALTER TABLE lake.altered.t UNSET TBLPROPERTIES ('b.c');
-- rows: 0

SHOW TBLPROPERTIES lake.altered.t ('a');
-- rows: 1
-- ["a", "1"]

ALTER TABLE lake.altered.t UNSET TBLPROPERTIES IF EXISTS ('never');
-- rows: 0

COMMENT ON TABLE lake.altered.t IS 'what it holds';
-- rows: 0

SHOW TBLPROPERTIES lake.altered.t ('comment');
-- rows: 1
-- ["comment", "Table lake.altered.t does not have property: comment"]

ALTER TABLE lake.altered.t SET TBLPROPERTIES ('format-version' = '3');
-- rows: 0

SHOW TBLPROPERTIES lake.altered.t ('format-version');
-- rows: 1
-- ["format-version", "3"]

ALTER TABLE lake.altered.t SET TBLPROPERTIES ('format-version' = '1');
-- error: any

SELECT count(*) FROM lake.altered.t;
-- rows: 1
-- [4]

ALTER TABLE lake.altered.nothing ADD COLUMN a INT;
-- error: TABLE_OR_VIEW_NOT_FOUND

-- Columns that partitions, orders and deletes are about.
CREATE TABLE lake.altered.parts (id BIGINT, kind STRING, v INT) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES ('write.delete.mode' = 'merge-on-read');
-- rows: 0

INSERT INTO lake.altered.parts VALUES (1, 'a', 10), (2, 'a', 20), (3, 'b', 30);
-- rows: 0

ALTER TABLE lake.altered.parts DROP COLUMN kind;
-- error: any

ALTER TABLE lake.altered.parts RENAME COLUMN kind TO sort;
-- rows: 0

SELECT sort, count(*) FROM lake.altered.parts WHERE sort = 'a' GROUP BY sort;
-- rows: 1
-- ["a", 2]

DELETE FROM lake.altered.parts WHERE v = 20;
-- rows: 0

ALTER TABLE lake.altered.parts DROP COLUMN v;
-- rows: 0

SELECT * FROM lake.altered.parts ORDER BY id;
-- rows: 2
-- [1, "a"]
-- [3, "b"]

ALTER TABLE lake.altered.parts ADD COLUMN v STRING;
-- rows: 0

SELECT * FROM lake.altered.parts ORDER BY id;
-- rows: 2
-- [1, "a", null]
-- [3, "b", null]
