-- Reading: columns of every type, filters, nested values, aggregates, joins and subqueries.

CREATE NAMESPACE lake.reading;
-- rows: 0

CREATE TABLE lake.reading.kinds (id BIGINT, flag BOOLEAN, small INT, f FLOAT, d DOUBLE, money DECIMAL(9,2), day DATE, at TIMESTAMP_NTZ, atz TIMESTAMP, text STRING, raw BINARY, st STRUCT<x: INT, y: STRUCT<z: STRING>>, li ARRAY<INT>, ma MAP<STRING, BIGINT>) USING iceberg;
-- rows: 0

INSERT INTO lake.reading.kinds SELECT /*+ COALESCE(1) */ id, id % 2 = 0, CAST(-id AS INT), CAST(id / 4 AS FLOAT), id / 8, CAST(id * 7 - 5 AS DECIMAL(9,2)), date_add(DATE'1969-12-30', CAST(id AS INT)), TIMESTAMP_NTZ'1969-12-31 23:59:59.999999' + make_dt_interval(0, 0, 0, id), TIMESTAMP'2020-01-01 00:00:00.000001' + make_dt_interval(CAST(id AS INT)), if(id = 2, NULL, concat('t', id)), CAST(concat('b', id) AS BINARY), if(id = 1, NULL, named_struct('x', CAST(id AS INT), 'y', if(id = 2, NULL, named_struct('z', concat('z', id))))), if(id = 3, NULL, array(CAST(id AS INT), NULL)), map('k', id) FROM range(6);
-- rows: 0

SELECT * FROM lake.reading.kinds WHERE id < 0;
-- rows: 0

SELECT id, flag, small, f, d, money FROM lake.reading.kinds ORDER BY id;
-- rows: 6
-- [0, true, 0, 0.0, 0.0, "-5.00"]
-- [1, false, -1, 0.25, 0.125, "2.00"]
-- [2, true, -2, 0.5, 0.25, "9.00"]
-- [3, false, -3, 0.75, 0.375, "16.00"]
-- [4, true, -4, 1.0, 0.5, "23.00"]
-- [5, false, -5, 1.25, 0.625, "30.00"]

SELECT id, day, at, CAST(atz AS STRING), text, raw FROM lake.reading.kinds ORDER BY id;
-- rows: 6
-- [0, "1969-12-30", "1969-12-31 23:59:59.999999", "2020-01-01 00:00:00.000001", "t0", "6230"]
-- [1, "1969-12-31", "1970-01-01 00:00:00.999999", "2020-01-02 00:00:00.000001", "t1", "6231"]
-- [2, "1970-01-01", "1970-01-01 00:00:01.999999", "2020-01-03 00:00:00.000001", null, "6232"]
-- [3, "1970-01-02", "1970-01-01 00:00:02.999999", "2020-01-04 00:00:00.000001", "t3", "6233"]
-- [4, "1970-01-03", "1970-01-01 00:00:03.999999", "2020-01-05 00:00:00.000001", "t4", "6234"]
-- [5, "1970-01-04", "1970-01-01 00:00:04.999999", "2020-01-06 00:00:00.000001", "t5", "6235"]

SELECT id, st, li, ma FROM lake.reading.kinds ORDER BY id;
-- rows: 6
-- [0, {"x": 0, "y": {"z": "z0"}}, [0, null], [["k", 0]]]
-- [1, null, [1, null], [["k", 1]]]
-- [2, {"x": 2, "y": null}, [2, null], [["k", 2]]]
-- [3, {"x": 3, "y": {"z": "z3"}}, null, [["k", 3]]]
-- [4, {"x": 4, "y": {"z": "z4"}}, [4, null], [["k", 4]]]
-- [5, {"x": 5, "y": {"z": "z5"}}, [5, null], [["k", 5]]]

SELECT id FROM lake.reading.kinds WHERE flag ORDER BY id;
-- rows: 3
-- [0]
-- [2]
-- [4]

SELECT id FROM lake.reading.kinds WHERE NOT flag ORDER BY id;
-- rows: 3
-- [1]
-- [3]
-- [5]

SELECT id FROM lake.reading.kinds WHERE id = 3;
-- rows: 1
-- [3]

SELECT id FROM lake.reading.kinds WHERE id <> 3 ORDER BY id;
-- rows: 5
-- [0]
-- [1]
-- [2]
-- [4]
-- [5]

SELECT id FROM lake.reading.kinds WHERE id > 3 ORDER BY id;
-- rows: 2
-- [4]
-- [5]

SELECT id FROM lake.reading.kinds WHERE id >= 3 ORDER BY id;
-- rows: 3
-- [3]
-- [4]
-- [5]

SELECT id FROM lake.reading.kinds WHERE id < 2 ORDER BY id;
-- rows: 2
-- [0]
-- [1]

SELECT id FROM lake.reading.kinds WHERE 4 <= id ORDER BY id;
-- rows: 2
-- [4]
-- [5]

SELECT id FROM lake.reading.kinds WHERE id BETWEEN 1 AND 3 ORDER BY id;
-- rows: 3
-- [1]
-- [2]
-- [3]

SELECT id FROM lake.reading.kinds WHERE id IN (1, 5, 9) ORDER BY id;
-- rows: 2
-- [1]
-- [5]

SELECT id FROM lake.reading.kinds WHERE id NOT IN (1, 5, 9) ORDER BY id;
-- rows: 4
-- [0]
-- [2]
-- [3]
-- [4]

SELECT id FROM lake.reading.kinds WHERE text IS NULL;
-- rows: 1
-- [2]

SELECT id FROM lake.reading.kinds WHERE text IS NOT NULL ORDER BY id;
-- rows: 5
-- [0]
-- [1]
-- [3]
-- [4]
-- [5]

SELECT id FROM lake.reading.kinds WHERE text = 't4';
-- rows: 1
-- [4]

SELECT id FROM lake.reading.kinds WHERE text <=> NULL;
-- rows: 1
-- [2]

SELECT id FROM lake.reading.kinds WHERE text <> 't4' ORDER BY id;
-- rows: 4
-- [0]
-- [1]
-- [3]
-- [5]

SELECT id FROM lake.reading.kinds WHERE NOT (text = 't4') ORDER BY id;
-- rows: 4
-- [0]
-- [1]
-- [3]
-- [5]

SELECT id FROM lake.reading.kinds WHERE text NOT IN ('t4', NULL);
-- rows: 0

SELECT id FROM lake.reading.kinds WHERE text LIKE 't%' AND id > 3 ORDER BY id;
-- rows: 2
-- [4]
-- [5]

SELECT id FROM lake.reading.kinds WHERE text LIKE '%5';
-- rows: 1
-- [5]

SELECT id FROM lake.reading.kinds WHERE text NOT LIKE 't1%' ORDER BY id;
-- rows: 4
-- [0]
-- [3]
-- [4]
-- [5]

SELECT id FROM lake.reading.kinds WHERE startswith(text, 't3') OR id = 0 ORDER BY id;
-- rows: 2
-- [0]
-- [3]

SELECT id FROM lake.reading.kinds WHERE money > 10 ORDER BY id;
-- rows: 3
-- [3]
-- [4]
-- [5]

SELECT id FROM lake.reading.kinds WHERE money = 9.00;
-- rows: 1
-- [2]

SELECT id FROM lake.reading.kinds WHERE day = DATE'1970-01-01';
-- rows: 1
-- [2]

SELECT id FROM lake.reading.kinds WHERE day < DATE'1970-01-01' ORDER BY id;
-- rows: 2
-- [0]
-- [1]

SELECT id FROM lake.reading.kinds WHERE year(day) = 1969 ORDER BY id;
-- rows: 2
-- [0]
-- [1]

SELECT id FROM lake.reading.kinds WHERE at >= TIMESTAMP_NTZ'1970-01-01 00:00:02' ORDER BY id;
-- rows: 3
-- [3]
-- [4]
-- [5]

SELECT id FROM lake.reading.kinds WHERE atz = TIMESTAMP'2020-01-03 00:00:00.000001';
-- rows: 1
-- [2]

SELECT id FROM lake.reading.kinds WHERE raw = X'6234';
-- rows: 1
-- [4]

SELECT id FROM lake.reading.kinds WHERE f > 1.0 ORDER BY id;
-- rows: 1
-- [5]

SELECT id FROM lake.reading.kinds WHERE d * 8 = id ORDER BY id;
-- rows: 6
-- [0]
-- [1]
-- [2]
-- [3]
-- [4]
-- [5]

SELECT id FROM lake.reading.kinds WHERE st IS NULL;
-- rows: 1
-- [1]

SELECT id FROM lake.reading.kinds WHERE st.x > 2 ORDER BY id;
-- rows: 3
-- [3]
-- [4]
-- [5]

SELECT id FROM lake.reading.kinds WHERE st.y IS NULL ORDER BY id;
-- rows: 2
-- [1]
-- [2]

SELECT id FROM lake.reading.kinds WHERE st.y.z = 'z5';
-- rows: 1
-- [5]

SELECT id, st.y.z FROM lake.reading.kinds ORDER BY id;
-- rows: 6
-- [0, "z0"]
-- [1, null]
-- [2, null]
-- [3, "z3"]
-- [4, "z4"]
-- [5, "z5"]

SELECT id, li[0], element_at(ma, 'k') FROM lake.reading.kinds WHERE li IS NOT NULL ORDER BY id;
-- rows: 5
-- [0, 0, 0]
-- [1, 1, 1]
-- [2, 2, 2]
-- [4, 4, 4]
-- [5, 5, 5]

SELECT id FROM lake.reading.kinds WHERE ma['k'] >= 4 ORDER BY id;
-- rows: 2
-- [4]
-- [5]

SELECT id FROM lake.reading.kinds WHERE array_contains(li, 4);
-- rows: 1
-- [4]

SELECT id FROM lake.reading.kinds WHERE id = 1 OR text = 't3' OR day = DATE'1969-12-30' ORDER BY id;
-- rows: 3
-- [0]
-- [1]
-- [3]

SELECT id FROM lake.reading.kinds WHERE (id > 1 AND flag) OR (id < 2 AND NOT flag) ORDER BY id;
-- rows: 3
-- [1]
-- [2]
-- [4]

SELECT count(*) FROM lake.reading.kinds;
-- rows: 1
-- [6]

SELECT count(text), count(DISTINCT flag) FROM lake.reading.kinds;
-- rows: 1
-- [5, 2]

SELECT min(id), max(id), sum(id), avg(d) FROM lake.reading.kinds;
-- rows: 1
-- [0, 5, 15, 0.3125]

SELECT min(day), max(day), min(text), max(text), min(money), max(at) FROM lake.reading.kinds;
-- rows: 1
-- ["1969-12-30", "1970-01-04", "t0", "t5", "-5.00", "1970-01-01 00:00:04.999999"]

SELECT min(id) FROM lake.reading.kinds WHERE id > 3;
-- rows: 1
-- [4]

SELECT count(*) FROM lake.reading.kinds WHERE id > 100;
-- rows: 1
-- [0]

SELECT max(id) FROM lake.reading.kinds WHERE id > 100;
-- rows: 1
-- [null]

SELECT flag, count(*), sum(money) FROM lake.reading.kinds GROUP BY flag ORDER BY flag;
-- rows: 2
-- [false, 3, "48.00"]
-- [true, 3, "27.00"]

SELECT st.x % 2 AS odd, count(*) FROM lake.reading.kinds GROUP BY 1 ORDER BY 1 NULLS FIRST;
-- rows: 3
-- [null, 1]
-- [0, 3]
-- [1, 2]

SELECT flag, collect_list(id) FROM (SELECT * FROM lake.reading.kinds ORDER BY id) GROUP BY flag HAVING count(*) = 3 ORDER BY flag;
-- rows: 2
-- [false, [1, 3, 5]]
-- [true, [0, 2, 4]]

SELECT id FROM lake.reading.kinds ORDER BY id DESC LIMIT 2;
-- rows: 2
-- [5]
-- [4]

SELECT count(*) FROM (SELECT * FROM lake.reading.kinds LIMIT 4);
-- rows: 1
-- [4]

SELECT id, row_number() OVER (PARTITION BY flag ORDER BY id DESC) AS place FROM lake.reading.kinds ORDER BY id;
-- rows: 6
-- [0, 3]
-- [1, 3]
-- [2, 2]
-- [3, 2]
-- [4, 1]
-- [5, 1]

SELECT DISTINCT flag FROM lake.reading.kinds ORDER BY flag;
-- rows: 2
-- [false]
-- [true]

SELECT a.id, b.text FROM lake.reading.kinds a JOIN lake.reading.kinds b ON a.id = b.id + 1 ORDER BY a.id;
-- rows: 5
-- [1, "t0"]
-- [2, "t1"]
-- [3, null]
-- [4, "t3"]
-- [5, "t4"]

SELECT a.id FROM lake.reading.kinds a LEFT ANTI JOIN lake.reading.kinds b ON a.id = b.small + 5 ORDER BY a.id;
-- rows: 0

SELECT id FROM lake.reading.kinds WHERE id = (SELECT max(id) FROM lake.reading.kinds);
-- rows: 1
-- [5]

SELECT id FROM lake.reading.kinds WHERE id IN (SELECT small + 4 FROM lake.reading.kinds) ORDER BY id;
-- rows: 5
-- [0]
-- [1]
-- [2]
-- [3]
-- [4]

SELECT a.id FROM lake.reading.kinds a WHERE EXISTS (SELECT 1 FROM lake.reading.kinds b WHERE b.id = a.id * 2 AND b.id > 0) ORDER BY a.id;
-- rows: 2
-- [1]
-- [2]

SELECT id FROM lake.reading.kinds WHERE id < 2 UNION ALL SELECT id FROM lake.reading.kinds WHERE id > 4 ORDER BY id;
-- rows: 3
-- [0]
-- [1]
-- [5]

WITH big AS (SELECT id FROM lake.reading.kinds WHERE id > 2) SELECT count(*) FROM big;
-- rows: 1
-- [3]

SELECT id, x FROM lake.reading.kinds LATERAL VIEW explode(li) AS x WHERE id < 2 ORDER BY id, x;
-- rows: 4
-- [0, null]
-- [0, 0]
-- [1, null]
-- [1, 1]

SELECT nothing FROM lake.reading.kinds;
-- error: UNRESOLVED_COLUMN

SELECT st.nothing FROM lake.reading.kinds;
-- error: FIELD_NOT_FOUND

SELECT * FROM lake.reading.nothing;
-- error: TABLE_OR_VIEW_NOT_FOUND

SELECT * FROM lake.nowhere.kinds;
-- error: TABLE_OR_VIEW_NOT_FOUND

-- Partitioned by every transform: the same filters, on files of their own.
CREATE TABLE lake.reading.parts (id BIGINT, kind STRING, at TIMESTAMP_NTZ, day DATE) USING iceberg PARTITIONED BY (kind, bucket(4, id), months(day));
-- rows: 0

INSERT INTO lake.reading.parts SELECT id, element_at(array('a', 'b', NULL), CAST(id % 3 AS INT) + 1), TIMESTAMP_NTZ'2024-01-01 00:00:00' + make_dt_interval(0, CAST(id * 7 AS INT)), date_add(DATE'2024-01-20', CAST(id * 5 AS INT)) FROM range(12);
-- rows: 0

SELECT id FROM lake.reading.parts WHERE kind = 'a' ORDER BY id;
-- rows: 4
-- [0]
-- [3]
-- [6]
-- [9]

SELECT id FROM lake.reading.parts WHERE kind IS NULL ORDER BY id;
-- rows: 4
-- [2]
-- [5]
-- [8]
-- [11]

SELECT id FROM lake.reading.parts WHERE kind IS NULL OR kind = 'b' ORDER BY id;
-- rows: 8
-- [1]
-- [2]
-- [4]
-- [5]
-- [7]
-- [8]
-- [10]
-- [11]

SELECT id FROM lake.reading.parts WHERE id IN (3, 4, 40) ORDER BY id;
-- rows: 2
-- [3]
-- [4]

SELECT id FROM lake.reading.parts WHERE day < DATE'2024-02-01' ORDER BY id;
-- rows: 3
-- [0]
-- [1]
-- [2]

SELECT id FROM lake.reading.parts WHERE day >= DATE'2024-02-01' AND day < DATE'2024-03-01' AND kind <> 'b' ORDER BY id;
-- rows: 2
-- [3]
-- [6]

SELECT id FROM lake.reading.parts WHERE lower(kind) = 'a' AND id > 5 ORDER BY id;
-- rows: 2
-- [6]
-- [9]

SELECT kind, count(*) FROM lake.reading.parts GROUP BY kind ORDER BY kind NULLS FIRST;
-- rows: 3
-- [null, 4]
-- ["a", 4]
-- ["b", 4]

SELECT p.id FROM lake.reading.parts p JOIN (SELECT 'a' AS kind, 6L AS id) s ON p.kind = s.kind AND p.id = s.id;
-- rows: 1
-- [6]

CREATE TABLE lake.reading.hours (id INT, at TIMESTAMP, s STRING) USING iceberg PARTITIONED BY (hours(at), truncate(2, s));
-- rows: 0

INSERT INTO lake.reading.hours VALUES (1, TIMESTAMP'1969-12-31 23:30:00', 'abc'), (2, TIMESTAMP'1970-01-01 00:30:00', 'abd'), (3, NULL, NULL), (4, TIMESTAMP'2024-02-29 12:00:00', 'x');
-- rows: 0

SELECT id FROM lake.reading.hours WHERE at < TIMESTAMP'1970-01-01 00:00:00';
-- rows: 1
-- [1]

SELECT id FROM lake.reading.hours WHERE at IS NULL;
-- rows: 1
-- [3]

SELECT id FROM lake.reading.hours WHERE s LIKE 'ab%' ORDER BY id;
-- rows: 2
-- [1]
-- [2]

SELECT id FROM lake.reading.hours WHERE s = 'abd';
-- rows: 1
-- [2]

SELECT id FROM lake.reading.hours WHERE s >= 'b';
-- rows: 1
-- [4]

-- Floats that are not numbers, and zeros of both signs.
CREATE TABLE lake.reading.floats (id INT, d DOUBLE) USING iceberg;
-- rows: 0

INSERT INTO lake.reading.floats VALUES (1, double('NaN')), (2, double('Infinity')), (3, -0.0D), (4, 0.0D), (5, NULL), (6, double('-Infinity'));
-- rows: 0

SELECT id FROM lake.reading.floats WHERE isnan(d);
-- rows: 1
-- [1]

SELECT id FROM lake.reading.floats WHERE NOT isnan(d) ORDER BY id;
-- rows: 5
-- [2]
-- [3]
-- [4]
-- [5]
-- [6]

SELECT id FROM lake.reading.floats WHERE d = 0 ORDER BY id;
-- rows: 2
-- [3]
-- [4]

SELECT id FROM lake.reading.floats WHERE d > 1 ORDER BY id;
-- rows: 2
-- [1]
-- [2]

SELECT id FROM lake.reading.floats WHERE d < 0;
-- rows: 1
-- [6]

SELECT id FROM lake.reading.floats ORDER BY d NULLS FIRST, id;
-- rows: 6
-- [5]
-- [6]
-- [3]
-- [4]
-- [2]
-- [1]

-- only icefloe: Java takes the maximum from bounds, which leave NaN out; Spark's maximum is NaN
SELECT isnan(max(d)), min(d) = double('-Infinity'), count(d) FROM lake.reading.floats;
-- rows: 1
-- [true, true, 5]
