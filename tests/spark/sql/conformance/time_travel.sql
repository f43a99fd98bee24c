-- Reading what was: by snapshot, time, branch and tag, over schemas that changed.

CREATE NAMESPACE lake.travelled;
-- rows: 0

CREATE TABLE lake.travelled.t (id BIGINT, v STRING) USING iceberg TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read');
-- rows: 0

INSERT INTO lake.travelled.t SELECT /*+ COALESCE(1) */ id, 'x' FROM range(3);
-- rows: 0
-- snapshot s1: lake.travelled.t

INSERT INTO lake.travelled.t VALUES (3, 'y');
-- rows: 0
-- snapshot s2: lake.travelled.t

DELETE FROM lake.travelled.t WHERE id = 0;
-- rows: 0
-- snapshot s3: lake.travelled.t

SELECT * FROM lake.travelled.t VERSION AS OF ${s1} ORDER BY id;
-- rows: 3
-- [0, "x"]
-- [1, "x"]
-- [2, "x"]

SELECT * FROM lake.travelled.t VERSION AS OF ${s2} ORDER BY id;
-- rows: 4
-- [0, "x"]
-- [1, "x"]
-- [2, "x"]
-- [3, "y"]

SELECT * FROM lake.travelled.t VERSION AS OF ${s3} ORDER BY id;
-- rows: 3
-- [1, "x"]
-- [2, "x"]
-- [3, "y"]

SELECT * FROM lake.travelled.t FOR SYSTEM_VERSION AS OF ${s1} ORDER BY id;
-- rows: 3
-- [0, "x"]
-- [1, "x"]
-- [2, "x"]

SELECT count(*) FROM lake.travelled.t VERSION AS OF ${s1} WHERE id > 0;
-- rows: 1
-- [2]

SELECT count(*) FROM lake.travelled.t TIMESTAMP AS OF '${s1.time}';
-- rows: 1
-- [3]

SELECT count(*) FROM lake.travelled.t TIMESTAMP AS OF TIMESTAMP'${s2.time}';
-- rows: 1
-- [4]

SELECT max(id) FROM lake.travelled.t FOR SYSTEM_TIME AS OF '${s2.time}' WHERE id < 3;
-- rows: 1
-- [2]

SELECT count(*) FROM lake.travelled.t TIMESTAMP AS OF '2100-01-01 00:00:00';
-- rows: 1
-- [3]

SELECT count(*) FROM lake.travelled.t TIMESTAMP AS OF '2000-01-01 00:00:00';
-- error: any

SELECT count(*) FROM lake.travelled.t VERSION AS OF 1;
-- error: any

SELECT count(*) FROM lake.travelled.t VERSION AS OF 'nothing';
-- error: any

SELECT count(*) FROM lake.travelled.nothing VERSION AS OF ${s1};
-- error: TABLE_OR_VIEW_NOT_FOUND

SELECT * FROM lake.travelled.t.snapshot_id_${s1} ORDER BY id;
-- rows: 3
-- [0, "x"]
-- [1, "x"]
-- [2, "x"]

ALTER TABLE lake.travelled.t ADD COLUMN n INT;
-- rows: 0

ALTER TABLE lake.travelled.t RENAME COLUMN v TO label;
-- rows: 0

INSERT INTO lake.travelled.t VALUES (4, 'z', 4);
-- rows: 0
-- snapshot s4: lake.travelled.t

SELECT * FROM lake.travelled.t ORDER BY id;
-- rows: 4
-- [1, "x", null]
-- [2, "x", null]
-- [3, "y", null]
-- [4, "z", 4]

SELECT * FROM lake.travelled.t VERSION AS OF ${s2} ORDER BY id;
-- rows: 4
-- [0, "x"]
-- [1, "x"]
-- [2, "x"]
-- [3, "y"]

SELECT v FROM lake.travelled.t VERSION AS OF ${s2} ORDER BY v;
-- rows: 4
-- ["x"]
-- ["x"]
-- ["x"]
-- ["y"]

SELECT label FROM lake.travelled.t VERSION AS OF ${s2};
-- error: UNRESOLVED_COLUMN

ALTER TABLE lake.travelled.t CREATE TAG before AS OF VERSION ${s2};
-- rows: 0

ALTER TABLE lake.travelled.t CREATE BRANCH side AS OF VERSION ${s2};
-- rows: 0

SELECT * FROM lake.travelled.t VERSION AS OF 'before' ORDER BY id;
-- rows: 4
-- [0, "x"]
-- [1, "x"]
-- [2, "x"]
-- [3, "y"]

SELECT * FROM lake.travelled.t VERSION AS OF 'side' ORDER BY id;
-- rows: 4
-- [0, "x", null]
-- [1, "x", null]
-- [2, "x", null]
-- [3, "y", null]

SELECT count(*) FROM lake.travelled.t.tag_before;
-- rows: 1
-- [4]

SELECT count(*) FROM lake.travelled.t.branch_side;
-- rows: 1
-- [4]

SELECT count(*) FROM lake.travelled.t.branch_main;
-- rows: 1
-- [4]

SELECT count(*) FROM lake.travelled.t VERSION AS OF 'main';
-- rows: 1
-- [4]

SELECT a.id, b.label FROM lake.travelled.t VERSION AS OF ${s1} a JOIN lake.travelled.t b ON a.id = b.id ORDER BY a.id;
-- rows: 2
-- [1, "x"]
-- [2, "x"]

SELECT id FROM lake.travelled.t EXCEPT SELECT id FROM lake.travelled.t VERSION AS OF ${s2} ORDER BY id;
-- rows: 1
-- [4]

SELECT sum(record_count) FROM lake.travelled.t.files VERSION AS OF ${s1};
-- rows: 1
-- [3]

SELECT content, sum(record_count) FROM lake.travelled.t.files VERSION AS OF ${s3} GROUP BY content ORDER BY content;
-- rows: 2
-- [0, 4]
-- [1, 1]

SELECT count(*) FROM lake.travelled.t.manifests VERSION AS OF ${s2};
-- rows: 1
-- [2]

INSERT INTO lake.travelled.t.snapshot_id_${s1} VALUES (9, 'no');
-- error: any
