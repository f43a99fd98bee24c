-- Branches and tags: made, moved, written, read, retained and dropped.

CREATE NAMESPACE lake.branched;
-- rows: 0

CREATE TABLE lake.branched.t (id BIGINT, v STRING) USING iceberg TBLPROPERTIES ('format-version' = '2');
-- rows: 0

ALTER TABLE lake.branched.t CREATE BRANCH early;
-- rows: 0
-- snapshot s0: lake.branched.t

SELECT count(*) FROM lake.branched.t.branch_early;
-- rows: 1
-- [0]

INSERT INTO lake.branched.t VALUES (1, 'a'), (2, 'b');
-- rows: 0
-- snapshot s1: lake.branched.t

INSERT INTO lake.branched.t VALUES (3, 'c');
-- rows: 0
-- snapshot s2: lake.branched.t

SELECT name, type, snapshot_id FROM lake.branched.t.refs ORDER BY name;
-- rows: 2
-- ["early", "BRANCH", ${s0}]
-- ["main", "BRANCH", ${s2}]

ALTER TABLE lake.branched.t CREATE BRANCH side;
-- rows: 0

ALTER TABLE lake.branched.t CREATE BRANCH side;
-- error: any

ALTER TABLE lake.branched.t CREATE BRANCH IF NOT EXISTS side;
-- rows: 0

ALTER TABLE lake.branched.t CREATE BRANCH old AS OF VERSION ${s1} RETAIN 7 DAYS WITH SNAPSHOT RETENTION 2 SNAPSHOTS 3 DAYS;
-- rows: 0

ALTER TABLE lake.branched.t CREATE TAG first AS OF VERSION ${s1} RETAIN 365 DAYS;
-- rows: 0

ALTER TABLE lake.branched.t CREATE TAG here;
-- rows: 0

ALTER TABLE lake.branched.t CREATE BRANCH counted WITH SNAPSHOT RETENTION 5 SNAPSHOTS;
-- rows: 0

SELECT * FROM lake.branched.t.refs ORDER BY name;
-- rows: 7
-- ["counted", "BRANCH", ${s2}, null, 5, null]
-- ["early", "BRANCH", ${s0}, null, null, null]
-- ["first", "TAG", ${s1}, 31536000000, null, null]
-- ["here", "TAG", ${s2}, null, null, null]
-- ["main", "BRANCH", ${s2}, null, null, null]
-- ["old", "BRANCH", ${s1}, 604800000, 2, 259200000]
-- ["side", "BRANCH", ${s2}, null, null, null]

ALTER TABLE lake.branched.t CREATE TAG side;
-- error: any

ALTER TABLE lake.branched.t CREATE TAG wrong AS OF VERSION 1;
-- error: any

INSERT INTO lake.branched.t.branch_side VALUES (10, 'side');
-- rows: 0
-- snapshot b1: lake.branched.t

SELECT * FROM lake.branched.t ORDER BY id;
-- rows: 3
-- [1, "a"]
-- [2, "b"]
-- [3, "c"]

SELECT * FROM lake.branched.t.branch_side ORDER BY id;
-- rows: 4
-- [1, "a"]
-- [2, "b"]
-- [3, "c"]
-- [10, "side"]

SELECT count(*) FROM lake.branched.t VERSION AS OF 'side' WHERE id > 2;
-- rows: 1
-- [2]

DELETE FROM lake.branched.t.branch_side WHERE id = 1;
-- rows: 0

SELECT id FROM lake.branched.t.branch_side ORDER BY id;
-- rows: 3
-- [2]
-- [3]
-- [10]

SELECT count(*) FROM lake.branched.t;
-- rows: 1
-- [3]

INSERT OVERWRITE lake.branched.t.branch_old VALUES (50, 'only');
-- rows: 0

SELECT * FROM lake.branched.t.branch_old;
-- rows: 1
-- [50, "only"]

UPDATE lake.branched.t.branch_side SET v = 'changed' WHERE id = 2;
-- rows: 0

SELECT * FROM lake.branched.t.branch_side ORDER BY id;
-- rows: 3
-- [2, "changed"]
-- [3, "c"]
-- [10, "side"]

MERGE INTO lake.branched.t.branch_side t USING (SELECT 3L AS id, 'm' AS v UNION ALL SELECT 11L, 'n') s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
-- rows: 0

SELECT * FROM lake.branched.t.branch_side ORDER BY id;
-- rows: 4
-- [2, "changed"]
-- [3, "m"]
-- [10, "side"]
-- [11, "n"]

SELECT * FROM lake.branched.t ORDER BY id;
-- rows: 3
-- [1, "a"]
-- [2, "b"]
-- [3, "c"]

INSERT INTO lake.branched.t.tag_first VALUES (1, 'x');
-- error: any

INSERT INTO lake.branched.t.branch_none VALUES (1, 'x');
-- error: any

SELECT * FROM lake.branched.t.branch_none;
-- error: any

SELECT * FROM lake.branched.t.tag_first ORDER BY id;
-- rows: 2
-- [1, "a"]
-- [2, "b"]

ALTER TABLE lake.branched.t ADD COLUMN n INT;
-- rows: 0

SELECT * FROM lake.branched.t.branch_side ORDER BY id;
-- rows: 4
-- [2, "changed", null]
-- [3, "m", null]
-- [10, "side", null]
-- [11, "n", null]

SELECT * FROM lake.branched.t.tag_first ORDER BY id;
-- rows: 2
-- [1, "a"]
-- [2, "b"]

INSERT INTO lake.branched.t.branch_side VALUES (12, 'late', 5);
-- rows: 0
-- snapshot b9: lake.branched.t

SELECT count(*), sum(n) FROM lake.branched.t.branch_side;
-- rows: 1
-- [5, 5]

ALTER TABLE lake.branched.t REPLACE TAG here AS OF VERSION ${s1};
-- rows: 0

ALTER TABLE lake.branched.t REPLACE BRANCH counted AS OF VERSION ${s1} RETAIN 2 HOURS;
-- rows: 0

ALTER TABLE lake.branched.t CREATE OR REPLACE TAG here AS OF VERSION ${s2} RETAIN 1 DAYS;
-- rows: 0

ALTER TABLE lake.branched.t CREATE OR REPLACE BRANCH made AS OF VERSION ${s1};
-- rows: 0

ALTER TABLE lake.branched.t REPLACE TAG never AS OF VERSION ${s1};
-- error: any

SELECT name, type, snapshot_id, max_reference_age_in_ms FROM lake.branched.t.refs WHERE name IN ('here', 'counted', 'made') ORDER BY name;
-- rows: 3
-- ["counted", "BRANCH", ${s1}, 7200000]
-- ["here", "TAG", ${s2}, 86400000]
-- ["made", "BRANCH", ${s1}, null]

ALTER TABLE lake.branched.t DROP TAG here;
-- rows: 0

ALTER TABLE lake.branched.t DROP TAG here;
-- error: any

ALTER TABLE lake.branched.t DROP TAG IF EXISTS here;
-- rows: 0

ALTER TABLE lake.branched.t DROP BRANCH made;
-- rows: 0

ALTER TABLE lake.branched.t DROP BRANCH IF EXISTS made;
-- rows: 0

ALTER TABLE lake.branched.t DROP BRANCH first;
-- error: any

ALTER TABLE lake.branched.t DROP TAG side;
-- error: any

ALTER TABLE lake.branched.t DROP BRANCH main;
-- error: any

SELECT name FROM lake.branched.t.refs ORDER BY name;
-- rows: 6
-- ["counted"]
-- ["early"]
-- ["first"]
-- ["main"]
-- ["old"]
-- ["side"]

CALL lake.system.fast_forward('branched.t', 'main', 'side');
-- rows: 1
-- ["main", ${s2}, ${b9}]

SELECT id FROM lake.branched.t ORDER BY id;
-- rows: 5
-- [2]
-- [3]
-- [10]
-- [11]
-- [12]

CALL lake.system.fast_forward('branched.t', 'main', 'old');
-- error: any

TRUNCATE TABLE lake.branched.t.branch_side;
-- rows: 0

SELECT count(*) FROM lake.branched.t.branch_side;
-- rows: 1
-- [0]

SELECT count(*) FROM lake.branched.t;
-- rows: 1
-- [5]
