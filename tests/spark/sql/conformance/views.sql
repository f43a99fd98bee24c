-- Views of the catalog: made, read, replaced, changed, listed and dropped.

CREATE NAMESPACE lake.seen;
-- rows: 0

CREATE TABLE lake.seen.t (id BIGINT, kind STRING, v DOUBLE) USING iceberg;
-- rows: 0

INSERT INTO lake.seen.t VALUES (1, 'a', 1.5), (2, 'b', 2.5), (3, 'a', 3.5);
-- rows: 0

CREATE VIEW lake.seen.sums AS SELECT kind, sum(v) AS total FROM lake.seen.t GROUP BY kind;
-- rows: 0

SELECT * FROM lake.seen.sums ORDER BY kind;
-- rows: 2
-- ["a", 5.0]
-- ["b", 2.5]

SELECT total FROM lake.seen.sums WHERE kind = 'a';
-- rows: 1
-- [5.0]

INSERT INTO lake.seen.t VALUES (4, 'b', 10.0);
-- rows: 0

SELECT * FROM lake.seen.sums ORDER BY kind;
-- rows: 2
-- ["a", 5.0]
-- ["b", 12.5]

CREATE VIEW lake.seen.sums AS SELECT 1 AS x;
-- error: TABLE_OR_VIEW_ALREADY_EXISTS | VIEW_ALREADY_EXISTS

CREATE VIEW IF NOT EXISTS lake.seen.sums AS SELECT 1 AS x;
-- rows: 0

SHOW VIEWS IN lake.seen;
-- rows: 1
-- ["seen", "sums", false]

SHOW VIEWS IN lake.seen LIKE 's*';
-- rows: 1
-- ["seen", "sums", false]

SHOW VIEWS IN lake.seen LIKE 'x*';
-- rows: 0

SHOW TABLES IN lake.seen;
-- rows: 1
-- ["seen", "t", false]

CREATE OR REPLACE VIEW lake.seen.sums (k COMMENT 'kind', n COMMENT 'how many') COMMENT 'counts' TBLPROPERTIES ('a' = 'b') AS SELECT kind, count(*) FROM lake.seen.t GROUP BY kind;
-- rows: 0

SELECT * FROM lake.seen.sums ORDER BY k;
-- rows: 2
-- ["a", 2]
-- ["b", 2]

DESCRIBE lake.seen.sums;
-- rows: 2
-- ["k", "string", "kind"]
-- ["n", "bigint", "how many"]

SHOW TBLPROPERTIES lake.seen.sums ('a');
-- rows: 1
-- ["a", "b"]

ALTER VIEW lake.seen.sums SET TBLPROPERTIES ('a' = 'c', 'd' = 'e');
-- rows: 0

SHOW TBLPROPERTIES lake.seen.sums ('a');
-- rows: 1
-- ["a", "c"]

ALTER VIEW lake.seen.sums UNSET TBLPROPERTIES ('d');
-- rows: 0

-- only java: Java 1.10.2 refuses it; Icefloe changes the view
ALTER VIEW lake.seen.sums AS SELECT 5 AS five;
-- error: any

CREATE VIEW lake.seen.over AS SELECT n + 1 AS more FROM lake.seen.sums;
-- rows: 0

SELECT * FROM lake.seen.over ORDER BY more;
-- rows: 2
-- [3]
-- [3]

SELECT s.k, t.id FROM lake.seen.sums s JOIN lake.seen.t t ON s.k = t.kind ORDER BY t.id;
-- rows: 4
-- ["a", 1]
-- ["b", 2]
-- ["a", 3]
-- ["b", 4]

WITH c AS (SELECT n FROM lake.seen.sums) SELECT sum(n) FROM c;
-- rows: 1
-- [4]

CREATE VIEW lake.seen.bad AS SELECT nothing FROM lake.seen.t;
-- error: UNRESOLVED_COLUMN

CREATE VIEW lake.seen.bad AS SELECT * FROM lake.seen.nothing;
-- error: TABLE_OR_VIEW_NOT_FOUND

CREATE VIEW lake.seen.bad (a, b) AS SELECT id FROM lake.seen.t;
-- error: any

CREATE VIEW lake.seen.t AS SELECT 1 AS x;
-- error: any

ALTER VIEW lake.seen.over RENAME TO lake.seen.upper;
-- rows: 0

SELECT count(*) FROM lake.seen.upper;
-- rows: 1
-- [2]

SELECT * FROM lake.seen.over;
-- error: TABLE_OR_VIEW_NOT_FOUND

INSERT INTO lake.seen.upper VALUES (1);
-- error: any

CREATE VIEW lake.seen.stars AS SELECT * FROM lake.seen.t;
-- rows: 0

ALTER TABLE lake.seen.t ADD COLUMN w INT;
-- rows: 0

SELECT * FROM lake.seen.stars ORDER BY id;
-- rows: 4
-- [1, "a", 1.5]
-- [2, "b", 2.5]
-- [3, "a", 3.5]
-- [4, "b", 10.0]

DROP VIEW lake.seen.upper;
-- rows: 0

DROP VIEW lake.seen.upper;
-- error: TABLE_OR_VIEW_NOT_FOUND | VIEW_NOT_FOUND

DROP VIEW IF EXISTS lake.seen.upper;
-- rows: 0

DROP VIEW lake.seen.t;
-- error: any

DROP TABLE lake.seen.sums;
-- error: any

SHOW VIEWS IN lake.seen;
-- rows: 2
-- ["seen", "stars", false]
-- ["seen", "sums", false]
