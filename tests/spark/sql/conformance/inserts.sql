-- INSERT INTO: by place and by name, defaults, casts, arity, partitions, what a snapshot says of it.

CREATE NAMESPACE lake.inserted;
-- rows: 0

CREATE TABLE lake.inserted.t (id BIGINT NOT NULL, name STRING, v DECIMAL(6,2), day DATE) USING iceberg;
-- rows: 0

INSERT INTO lake.inserted.t VALUES (1, 'a', 1.5, DATE'2024-01-01');
-- rows: 0

INSERT INTO lake.inserted.t VALUES (2, 'b', NULL, NULL), (3, NULL, 2.25, DATE'2024-01-02');
-- rows: 0

SELECT * FROM lake.inserted.t ORDER BY id;
-- rows: 3
-- [1, "a", "1.50", "2024-01-01"]
-- [2, "b", null, null]
-- [3, null, "2.25", "2024-01-02"]

INSERT INTO lake.inserted.t (day, v, name, id) VALUES (DATE'2024-01-04', 4, 'd', 4);
-- rows: 0

INSERT INTO lake.inserted.t BY NAME SELECT 'f' AS name, 6L AS id, NULL AS day, 6.5 AS v;
-- rows: 0

INSERT INTO lake.inserted.t TABLE lake.inserted.t;
-- rows: 0

SELECT id, count(*) FROM lake.inserted.t GROUP BY id ORDER BY id;
-- rows: 5
-- [1, 2]
-- [2, 2]
-- [3, 2]
-- [4, 2]
-- [6, 2]

INSERT INTO lake.inserted.t SELECT id + 10, name, v, day FROM lake.inserted.t WHERE id = 1;
-- rows: 0

INSERT INTO lake.inserted.t SELECT id + 100, name, v, day FROM lake.inserted.t WHERE id > 1000;
-- rows: 0

SELECT count(*), count(DISTINCT id) FROM lake.inserted.t;
-- rows: 1
-- [12, 6]

SELECT operation, count(*) FROM lake.inserted.t.snapshots GROUP BY operation ORDER BY operation;
-- rows: 1
-- ["append", 7]

INSERT INTO lake.inserted.t VALUES (1);
-- error: INSERT_COLUMN_ARITY_MISMATCH

INSERT INTO lake.inserted.t VALUES (1, 'a', 1, DATE'2024-01-01', 5);
-- error: INSERT_COLUMN_ARITY_MISMATCH

INSERT INTO lake.inserted.t (id, nothing) VALUES (1, 2);
-- error: UNRESOLVED_COLUMN | INSERT_COLUMN_ARITY_MISMATCH

INSERT INTO lake.inserted.t (id, id) VALUES (1, 2);
-- error: COLUMN_ALREADY_EXISTS

INSERT INTO lake.inserted.t (name) VALUES ('no id');
-- error: any

INSERT INTO lake.inserted.t VALUES (NULL, 'x', 1, NULL);
-- error: any

INSERT INTO lake.inserted.t VALUES ('x', 'x', 1, NULL);
-- error: any

INSERT INTO lake.inserted.t VALUES (9, 'x', 12345.678, NULL);
-- error: any

INSERT INTO lake.inserted.t VALUES (9, 'x', 1, true);
-- error: INCOMPATIBLE_DATA_FOR_TABLE

INSERT INTO lake.inserted.t BY NAME SELECT 1L AS id, 2 AS nothing;
-- error: any

INSERT INTO lake.inserted.nothing VALUES (1);
-- error: TABLE_OR_VIEW_NOT_FOUND

SELECT count(*) FROM lake.inserted.t;
-- rows: 1
-- [12]

SELECT count(*) FROM lake.inserted.t.snapshots;
-- rows: 1
-- [7]

CREATE TABLE lake.inserted.parts (id INT, kind STRING, n INT) USING iceberg PARTITIONED BY (kind, n);
-- rows: 0

INSERT INTO lake.inserted.parts PARTITION (kind = 'a', n = 1) VALUES (1), (2);
-- rows: 0

INSERT INTO lake.inserted.parts PARTITION (kind = 'b', n) VALUES (3, 2), (4, 3);
-- rows: 0

INSERT INTO lake.inserted.parts PARTITION (kind = 'c') (n, id) VALUES (5, 6);
-- rows: 0

SELECT * FROM lake.inserted.parts ORDER BY id;
-- rows: 5
-- [1, "a", 1]
-- [2, "a", 1]
-- [3, "b", 2]
-- [4, "b", 3]
-- [6, "c", 5]

SELECT partition.kind, partition.n, record_count FROM lake.inserted.parts.partitions ORDER BY 1, 2;
-- rows: 4
-- ["a", 1, 2]
-- ["b", 2, 1]
-- ["b", 3, 1]
-- ["c", 5, 1]

INSERT INTO lake.inserted.parts PARTITION (nothing = 'b') VALUES (3, 2);
-- error: NON_PARTITION_COLUMN

INSERT INTO lake.inserted.parts VALUES (7, NULL, NULL), (8, '', 0), (9, 'a b/c=d%', 0);
-- rows: 0

SELECT id, kind, n FROM lake.inserted.parts WHERE id > 6 ORDER BY id;
-- rows: 3
-- [7, null, null]
-- [8, "", 0]
-- [9, "a b/c=d%", 0]

SELECT partition.kind, partition.n FROM lake.inserted.parts.files WHERE partition.kind IS NULL OR partition.n = 0 ORDER BY 1;
-- rows: 3
-- [null, null]
-- ["", 0]
-- ["a b/c=d%", 0]

-- Unsorted rows into many partitions, with every transform.
CREATE TABLE lake.inserted.many (id BIGINT, s STRING, ts TIMESTAMP, d DATE) USING iceberg PARTITIONED BY (bucket(3, s), truncate(4, id), hours(ts), years(d));
-- rows: 0

INSERT INTO lake.inserted.many SELECT id, concat('s', id % 5), timestamp_seconds(id * 3600), date_add(DATE'1969-06-01', CAST(id * 200 AS INT)) FROM range(-3, 9);
-- rows: 0

SELECT count(*), min(id), max(id) FROM lake.inserted.many;
-- rows: 1
-- [12, -3, 8]

SELECT id FROM lake.inserted.many WHERE s = 's1' ORDER BY id;
-- rows: 2
-- [1]
-- [6]

SELECT partition.id_trunc, sum(record_count) FROM lake.inserted.many.files GROUP BY 1 ORDER BY 1;
-- rows: 4
-- [-4, 3]
-- [0, 4]
-- [4, 4]
-- [8, 1]

SELECT partition.d_year, sum(record_count) FROM lake.inserted.many.files GROUP BY 1 ORDER BY 1;
-- rows: 7
-- [-3, 1]
-- [-2, 2]
-- [-1, 2]
-- [0, 1]
-- [1, 2]
-- [2, 2]
-- [3, 2]

SELECT partition.s_bucket, sum(record_count) FROM lake.inserted.many.files GROUP BY 1 ORDER BY 1;
-- rows: 3
-- [0, 7]
-- [1, 4]
-- [2, 1]

SELECT partition.ts_hour, sum(record_count) FROM lake.inserted.many.files GROUP BY 1 ORDER BY 1;
-- rows: 12
-- [-3, 1]
-- [-2, 1]
-- [-1, 1]
-- [0, 1]
-- [1, 1]
-- [2, 1]
-- [3, 1]
-- [4, 1]
-- [5, 1]
-- [6, 1]
-- [7, 1]
-- [8, 1]

-- Nested values.
CREATE TABLE lake.inserted.nested (id INT, s STRUCT<a: INT, b: STRUCT<c: STRING>>, l ARRAY<STRUCT<x: INT>>, m MAP<INT, ARRAY<STRING>>) USING iceberg;
-- rows: 0

INSERT INTO lake.inserted.nested VALUES (1, named_struct('a', 1, 'b', named_struct('c', 'x')), array(named_struct('x', 1), NULL), map(1, array('p', NULL)));
-- rows: 0

INSERT INTO lake.inserted.nested VALUES (2, NULL, array(), map()), (3, named_struct('a', NULL, 'b', NULL), NULL, NULL);
-- rows: 0

SELECT * FROM lake.inserted.nested ORDER BY id;
-- rows: 3
-- [1, {"a": 1, "b": {"c": "x"}}, [{"x": 1}, null], [[1, ["p", null]]]]
-- [2, null, [], []]
-- [3, {"a": null, "b": null}, null, null]

-- Columns that are left out.
CREATE TABLE lake.inserted.fewer (id INT NOT NULL, a STRING, b INT) USING iceberg;
-- rows: 0

-- only icefloe: Spark 3.5 asks for every column
-- since 4.1: Spark 4.0 fills nothing in
INSERT INTO lake.inserted.fewer (id, a) VALUES (1, 'x');
-- rows: 0

-- until 4.1: the same, with every column
INSERT INTO lake.inserted.fewer (id, a, b) VALUES (1, 'x', NULL);
-- rows: 0

-- only icefloe: Spark 3.5 asks for every column
-- since 4.1: Spark 4.0 fills nothing in
INSERT INTO lake.inserted.fewer (b, id) VALUES (5, 2);
-- rows: 0

-- until 4.1: the same, with every column
INSERT INTO lake.inserted.fewer (b, id, a) VALUES (5, 2, NULL);
-- rows: 0

-- only icefloe: Spark 3.5 asks for every column
-- since 4.1: Spark 4.0 fills nothing in
INSERT INTO lake.inserted.fewer BY NAME SELECT 3 AS id;
-- rows: 0

-- until 4.1: the same, with every column
INSERT INTO lake.inserted.fewer BY NAME SELECT 3 AS id, NULL AS b, NULL AS a;
-- rows: 0

-- only icefloe: Spark 3.5 asks for every column
SELECT * FROM lake.inserted.fewer ORDER BY id;
-- rows: 3
-- [1, "x", null]
-- [2, null, 5]
-- [3, null, null]

INSERT INTO lake.inserted.fewer (a) VALUES ('no id');
-- error: any
