-- Namespaces: made, listed, described, changed and dropped.

CREATE NAMESPACE lake.spaces;
-- rows: 0

CREATE NAMESPACE lake.spaces_two COMMENT 'the second' WITH DBPROPERTIES ('k' = 'v');
-- rows: 0

CREATE NAMESPACE lake.spaces;
-- error: SCHEMA_ALREADY_EXISTS

CREATE NAMESPACE IF NOT EXISTS lake.spaces;
-- rows: 0

SHOW NAMESPACES IN lake LIKE 'spaces*';
-- rows: 2
-- ["spaces"]
-- ["spaces_two"]

SHOW NAMESPACES IN lake LIKE 'nothing*';
-- rows: 0

DESCRIBE NAMESPACE lake.spaces_two;
-- rows: 4
-- ["Catalog Name", "lake"]
-- ["Namespace Name", "spaces_two"]
-- ["Comment", "the second"]
-- ["Owner", "${user}"]

DESCRIBE NAMESPACE EXTENDED lake.spaces_two;
-- rows: 5
-- ["Catalog Name", "lake"]
-- ["Namespace Name", "spaces_two"]
-- ["Comment", "the second"]
-- ["Owner", "${user}"]
-- ["Properties", "((k,v))"]

ALTER NAMESPACE lake.spaces_two SET PROPERTIES ('k' = 'w', 'l' = '1');
-- rows: 0

DESCRIBE NAMESPACE EXTENDED lake.spaces_two;
-- rows: 5
-- ["Catalog Name", "lake"]
-- ["Namespace Name", "spaces_two"]
-- ["Comment", "the second"]
-- ["Owner", "${user}"]
-- ["Properties", "((k,w), (l,1))"]

COMMENT ON NAMESPACE lake.spaces_two IS 'changed';
-- rows: 0

DESCRIBE NAMESPACE EXTENDED lake.spaces_two;
-- rows: 5
-- ["Catalog Name", "lake"]
-- ["Namespace Name", "spaces_two"]
-- ["Comment", "changed"]
-- ["Owner", "${user}"]
-- ["Properties", "((k,w), (l,1))"]

DESCRIBE NAMESPACE lake.spaces_none;
-- error: SCHEMA_NOT_FOUND

CREATE NAMESPACE lake.spaces.inner;
-- rows: 0

SHOW NAMESPACES IN lake.spaces;
-- rows: 1
-- ["spaces.inner"]

CREATE TABLE lake.spaces.inner.t (id INT) USING iceberg;
-- rows: 0

INSERT INTO lake.spaces.inner.t VALUES (1);
-- rows: 0

SELECT * FROM lake.spaces.inner.t;
-- rows: 1
-- [1]

SHOW TABLES IN lake.spaces.inner;
-- rows: 1
-- ["spaces.inner", "t", false]

DROP NAMESPACE lake.spaces.inner;
-- error: SCHEMA_NOT_EMPTY

DROP TABLE lake.spaces.inner.t;
-- rows: 0

DROP NAMESPACE lake.spaces.inner;
-- rows: 0

DROP NAMESPACE lake.spaces_none;
-- error: SCHEMA_NOT_FOUND

DROP NAMESPACE IF EXISTS lake.spaces_none;
-- rows: 0

CREATE TABLE lake.spaces_two.t (id INT) USING iceberg;
-- rows: 0

DROP NAMESPACE lake.spaces_two RESTRICT;
-- error: SCHEMA_NOT_EMPTY

DROP TABLE lake.spaces_two.t;
-- rows: 0

-- only icefloe: Spark 3.5 does not parse it
ALTER NAMESPACE lake.spaces_two UNSET PROPERTIES ('l');
-- rows: 0

DROP NAMESPACE lake.spaces_two;
-- rows: 0

SHOW NAMESPACES IN lake LIKE 'spaces*';
-- rows: 1
-- ["spaces"]

CREATE TABLE lake.spaces_two.t (id INT) USING iceberg;
-- error: SCHEMA_NOT_FOUND
