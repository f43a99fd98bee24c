-- CREATE TABLE in its forms, and what a table says of itself.

CREATE NAMESPACE lake.made;
-- rows: 0

CREATE TABLE lake.made.plain (id BIGINT NOT NULL COMMENT 'who', name STRING, price DECIMAL(10,2)) USING iceberg COMMENT 'goods';
-- rows: 0

DESCRIBE lake.made.plain;
-- rows: 3
-- ["id", "bigint", "who"]
-- ["name", "string", null]
-- ["price", "decimal(10,2)", null]

DESCRIBE lake.made.plain name;
-- rows: 3
-- ["col_name", "name"]
-- ["data_type", "string"]
-- ["comment", "NULL"]

SHOW TABLES IN lake.made;
-- rows: 1
-- ["made", "plain", false]

SHOW TABLES IN lake.made LIKE 'p*';
-- rows: 1
-- ["made", "plain", false]

SHOW TABLES IN lake.made LIKE 'q*';
-- rows: 0

CREATE TABLE lake.made.plain (id INT) USING iceberg;
-- error: TABLE_OR_VIEW_ALREADY_EXISTS

CREATE TABLE IF NOT EXISTS lake.made.plain (other INT) USING iceberg;
-- rows: 0

DESCRIBE lake.made.plain;
-- rows: 3
-- ["id", "bigint", "who"]
-- ["name", "string", null]
-- ["price", "decimal(10,2)", null]

INSERT INTO lake.made.plain VALUES (NULL, 'x', 1);
-- error: any

INSERT INTO lake.made.plain VALUES (1, 'x', 1.255);
-- rows: 0

SELECT * FROM lake.made.plain;
-- rows: 1
-- [1, "x", "1.26"]

CREATE TABLE lake.made.parts (id BIGINT, ts TIMESTAMP, d DATE, s STRING) USING iceberg PARTITIONED BY (bucket(8, id), days(ts), years(d), truncate(3, s));
-- rows: 0

DESCRIBE lake.made.parts;
-- rows: 10
-- ["id", "bigint", null]
-- ["ts", "timestamp", null]
-- ["d", "date", null]
-- ["s", "string", null]
-- ["", "", ""]
-- ["# Partitioning", "", ""]
-- ["Part 0", "bucket(8, id)", ""]
-- ["Part 1", "days(ts)", ""]
-- ["Part 2", "years(d)", ""]
-- ["Part 3", "truncate(3, s)", ""]

CREATE TABLE lake.made.parts2 (id BIGINT, ts TIMESTAMP, d DATE, s STRING) USING iceberg PARTITIONED BY (s, hours(ts), months(d));
-- rows: 0

DESCRIBE lake.made.parts2;
-- rows: 9
-- ["id", "bigint", null]
-- ["ts", "timestamp", null]
-- ["d", "date", null]
-- ["s", "string", null]
-- ["", "", ""]
-- ["# Partitioning", "", ""]
-- ["Part 0", "s", ""]
-- ["Part 1", "hours(ts)", ""]
-- ["Part 2", "months(d)", ""]

CREATE TABLE lake.made.bad (id BIGINT) USING iceberg PARTITIONED BY (nothing);
-- error: any

CREATE TABLE lake.made.bad (id BIGINT, s STRING) USING iceberg PARTITIONED BY (days(s));
-- error: any

CREATE TABLE lake.made.bad (id BIGINT, id INT) USING iceberg;
-- error: COLUMN_ALREADY_EXISTS

CREATE TABLE lake.made.bad (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '9');
-- error: any

SHOW TABLES IN lake.made LIKE 'bad';
-- rows: 0

CREATE TABLE lake.made.props (id INT) USING iceberg TBLPROPERTIES ('a' = '1', 'format-version' = '3');
-- rows: 0

SHOW TBLPROPERTIES lake.made.props ('a');
-- rows: 1
-- ["a", "1"]

SHOW TBLPROPERTIES lake.made.props ('format-version');
-- rows: 1
-- ["format-version", "3"]

SHOW TBLPROPERTIES lake.made.props ('none');
-- rows: 1
-- ["none", "Table lake.made.props does not have property: none"]

CREATE TABLE lake.made.kinds (a BOOLEAN, b INT, c BIGINT, d FLOAT, e DOUBLE, f DECIMAL(38,10), g DATE, h TIMESTAMP, i TIMESTAMP_NTZ, j STRING, k BINARY, l STRUCT<x: INT COMMENT 'in', y: ARRAY<STRUCT<z: STRING>>>, m MAP<STRING, ARRAY<INT>>) USING iceberg;
-- rows: 0

DESCRIBE lake.made.kinds;
-- rows: 13
-- ["a", "boolean", null]
-- ["b", "int", null]
-- ["c", "bigint", null]
-- ["d", "float", null]
-- ["e", "double", null]
-- ["f", "decimal(38,10)", null]
-- ["g", "date", null]
-- ["h", "timestamp", null]
-- ["i", "timestamp_ntz", null]
-- ["j", "string", null]
-- ["k", "binary", null]
-- ["l", "struct<x:int,y:array<struct<z:string>>>", null]
-- ["m", "map<string,array<int>>", null]

-- only java: Icefloe refuses texts of a bounded length, which no engine would check
CREATE TABLE lake.made.small (a TINYINT, b SMALLINT, c VARCHAR(5), d CHAR(3)) USING iceberg;
-- rows: 0

-- only icefloe: the same as strings
CREATE TABLE lake.made.small (a TINYINT, b SMALLINT, c STRING, d STRING) USING iceberg;
-- rows: 0

DESCRIBE lake.made.small;
-- rows: 4
-- ["a", "int", null]
-- ["b", "int", null]
-- ["c", "string", null]
-- ["d", "string", null]

CREATE TABLE lake.made.bad (a INTERVAL DAY TO SECOND) USING iceberg;
-- error: any

-- Tables made of queries.
CREATE TABLE lake.made.ctas USING iceberg PARTITIONED BY (kind) TBLPROPERTIES ('x' = 'y') AS SELECT id, if(id % 2 = 0, 'a', 'b') AS kind FROM range(6);
-- rows: 0

DESCRIBE lake.made.ctas;
-- rows: 5
-- ["id", "bigint", null]
-- ["kind", "string", null]
-- ["# Partition Information", "", ""]
-- ["# col_name", "data_type", "comment"]
-- ["kind", "string", null]

SELECT kind, count(*) FROM lake.made.ctas GROUP BY kind ORDER BY kind;
-- rows: 2
-- ["a", 3]
-- ["b", 3]

SHOW TBLPROPERTIES lake.made.ctas ('x');
-- rows: 1
-- ["x", "y"]

SELECT count(*) FROM lake.made.ctas.snapshots;
-- rows: 1
-- [1]

CREATE TABLE lake.made.ctas USING iceberg AS SELECT 1 AS id;
-- error: TABLE_OR_VIEW_ALREADY_EXISTS

CREATE TABLE IF NOT EXISTS lake.made.ctas USING iceberg AS SELECT 1 AS id;
-- rows: 0

SELECT count(*) FROM lake.made.ctas;
-- rows: 1
-- [6]

CREATE TABLE lake.made.broken USING iceberg AS SELECT raise_error('no') AS id;
-- error: any

SHOW TABLES IN lake.made LIKE 'broken';
-- rows: 0

CREATE TABLE lake.made.nothing USING iceberg AS SELECT id FROM range(5) WHERE id > 9;
-- rows: 0

SELECT count(*) FROM lake.made.nothing;
-- rows: 1
-- [0]

CREATE OR REPLACE TABLE lake.made.ctas USING iceberg AS SELECT id, id * 2 AS twice FROM range(3);
-- rows: 0

SELECT * FROM lake.made.ctas ORDER BY id;
-- rows: 3
-- [0, 0]
-- [1, 2]
-- [2, 4]

DESCRIBE lake.made.ctas;
-- rows: 2
-- ["id", "bigint", null]
-- ["twice", "bigint", null]

SELECT count(*) FROM lake.made.ctas.snapshots;
-- rows: 1
-- [2]

SELECT count(*) FROM lake.made.ctas.history WHERE is_current_ancestor;
-- rows: 1
-- [1]

REPLACE TABLE lake.made.ctas USING iceberg PARTITIONED BY (twice) AS SELECT id, twice FROM lake.made.ctas WHERE id > 0;
-- rows: 0

SELECT * FROM lake.made.ctas ORDER BY id;
-- rows: 2
-- [1, 2]
-- [2, 4]

REPLACE TABLE lake.made.none USING iceberg AS SELECT 1 AS id;
-- error: TABLE_OR_VIEW_NOT_FOUND

CREATE OR REPLACE TABLE lake.made.fresh USING iceberg AS SELECT 1 AS id;
-- rows: 0

SELECT * FROM lake.made.fresh;
-- rows: 1
-- [1]

CREATE OR REPLACE TABLE lake.made.fresh (a INT, b STRING) USING iceberg;
-- rows: 0

SELECT * FROM lake.made.fresh;
-- rows: 0

DESCRIBE lake.made.fresh;
-- rows: 2
-- ["a", "int", null]
-- ["b", "string", null]

REPLACE TABLE lake.made.ctas USING iceberg AS SELECT raise_error('no') AS id;
-- error: any

SELECT * FROM lake.made.ctas ORDER BY id;
-- rows: 2
-- [1, 2]
-- [2, 4]

-- Names.
ALTER TABLE lake.made.fresh RENAME TO made.renamed;
-- rows: 0

SHOW TABLES IN lake.made LIKE 'fresh|renamed';
-- rows: 1
-- ["made", "renamed", false]

SELECT * FROM lake.made.fresh;
-- error: TABLE_OR_VIEW_NOT_FOUND

ALTER TABLE lake.made.renamed RENAME TO made.plain;
-- error: TABLE_OR_VIEW_ALREADY_EXISTS

CREATE TABLE lake.made.`odd name` (`a b` INT, `c.d` STRING, `E` INT) USING iceberg;
-- rows: 0

INSERT INTO lake.made.`odd name` VALUES (1, 'x', 2);
-- rows: 0

SELECT `a b`, `c.d`, e FROM lake.made.`odd name`;
-- rows: 1
-- [1, "x", 2]

DROP TABLE lake.made.renamed;
-- rows: 0

DROP TABLE lake.made.renamed;
-- error: TABLE_OR_VIEW_NOT_FOUND

DROP TABLE IF EXISTS lake.made.renamed;
-- rows: 0

DROP TABLE lake.made.plain PURGE;
-- rows: 0

SHOW TABLES IN lake.made LIKE 'plain';
-- rows: 0
