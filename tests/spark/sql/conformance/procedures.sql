-- CALL lake.system...: arguments by place and by name, what they do and what they answer.

CREATE NAMESPACE lake.called;
-- rows: 0

CREATE TABLE lake.called.t (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '2');
-- rows: 0

INSERT INTO lake.called.t VALUES (1);
-- rows: 0
-- snapshot s1: lake.called.t

INSERT INTO lake.called.t VALUES (2);
-- rows: 0
-- snapshot s2: lake.called.t

INSERT INTO lake.called.t VALUES (3);
-- rows: 0
-- snapshot s3: lake.called.t

CALL lake.system.rollback_to_snapshot('called.t', ${s2});
-- rows: 1
-- [${s3}, ${s2}]

SELECT id FROM lake.called.t ORDER BY id;
-- rows: 2
-- [1]
-- [2]

CALL lake.system.rollback_to_snapshot(table => 'called.t', snapshot_id => ${s3});
-- error: any

CALL lake.system.set_current_snapshot(table => 'called.t', snapshot_id => ${s3});
-- rows: 1
-- [${s2}, ${s3}]

SELECT id FROM lake.called.t ORDER BY id;
-- rows: 3
-- [1]
-- [2]
-- [3]

CALL lake.system.rollback_to_timestamp('called.t', TIMESTAMP'2000-01-01 00:00:00');
-- error: any

SELECT snapshot_id FROM (SELECT snapshot_id, made_current_at FROM lake.called.t.history) ORDER BY made_current_at;
-- rows: 5
-- [${s1}]
-- [${s2}]
-- [${s3}]
-- [${s2}]
-- [${s3}]

CALL lake.system.ancestors_of('called.t');
-- rows: 3
-- [${s1}, ${s1.ms}]
-- [${s2}, ${s2.ms}]
-- [${s3}, ${s3.ms}]

SELECT count(*) FROM lake.called.t;
-- rows: 1
-- [3]

ALTER TABLE lake.called.t CREATE TAG one AS OF VERSION ${s1};
-- rows: 0

CALL lake.system.set_current_snapshot(table => 'called.t', ref => 'one');
-- rows: 1
-- [${s3}, ${s1}]

SELECT id FROM lake.called.t ORDER BY id;
-- rows: 1
-- [1]

CALL lake.system.set_current_snapshot('called.t', 1);
-- error: any

CALL lake.system.set_current_snapshot(table => 'called.t');
-- error: any

CALL lake.system.set_current_snapshot(table => 'called.t', snapshot_id => ${s1}, ref => 'one');
-- error: any

CALL lake.system.fast_forward('called.t', 'ahead', 'main');
-- rows: 1
-- ["ahead", null, ${s1}]

ALTER TABLE lake.called.t CREATE BRANCH later AS OF VERSION ${s3};
-- rows: 0

CALL lake.system.fast_forward(table => 'called.t', branch => 'main', to => 'later');
-- rows: 1
-- ["main", ${s1}, ${s3}]

SELECT id FROM lake.called.t ORDER BY id;
-- rows: 3
-- [1]
-- [2]
-- [3]

CALL lake.system.fast_forward('called.t', 'main', 'none');
-- error: any

CALL lake.system.nothing('called.t');
-- error: any

CALL lake.system.rollback_to_snapshot('called.t');
-- error: any

CALL lake.system.rollback_to_snapshot('called.t', ${s1}, 5);
-- error: any

CALL lake.system.rollback_to_snapshot(table => 'called.t', nothing => 5);
-- error: any

CALL lake.system.rollback_to_snapshot('called.none', 5);
-- error: any

CALL lake.system.rollback_to_snapshot('called.t', 5);
-- error: any

CALL lake.system.rollback_to_snapshot(table => 'called.t', table => 'called.t', snapshot_id => ${s1});
-- error: any

-- Changes that wait to be published.
CREATE TABLE lake.called.wap (id BIGINT) USING iceberg TBLPROPERTIES ('write.wap.enabled' = 'true');
-- rows: 0

INSERT INTO lake.called.wap VALUES (1);
-- rows: 0

SET spark.wap.id = w1;
-- rows: 1
-- ["spark.wap.id", "w1"]

INSERT INTO lake.called.wap VALUES (2);
-- rows: 0
-- snapshot staged: lake.called.wap

SET spark.wap.id = ;
-- rows: 1
-- ["spark.wap.id", ""]

SELECT id FROM lake.called.wap ORDER BY id;
-- rows: 1
-- [1]

SELECT count(*) FROM lake.called.wap.snapshots;
-- rows: 1
-- [2]

SELECT count(*) FROM lake.called.wap.snapshots WHERE summary['wap.id'] = 'w1';
-- rows: 1
-- [1]

CALL lake.system.publish_changes('called.wap', 'w1');
-- rows: 1
-- [${staged}, ${staged}]

SELECT id FROM lake.called.wap ORDER BY id;
-- rows: 2
-- [1]
-- [2]

CALL lake.system.publish_changes('called.wap', 'w1');
-- error: any

CALL lake.system.publish_changes('called.wap', 'w9');
-- error: any

ALTER TABLE lake.called.wap UNSET TBLPROPERTIES ('write.wap.enabled');
-- rows: 0

-- A pick from a branch.
CREATE TABLE lake.called.picked (id BIGINT) USING iceberg;
-- rows: 0

INSERT INTO lake.called.picked VALUES (1);
-- rows: 0

ALTER TABLE lake.called.picked CREATE BRANCH side;
-- rows: 0

INSERT INTO lake.called.picked.branch_side VALUES (2);
-- rows: 0
-- snapshot p1: lake.called.picked

INSERT INTO lake.called.picked VALUES (3);
-- rows: 0

SELECT id FROM lake.called.picked ORDER BY id;
-- rows: 2
-- [1]
-- [3]

SELECT count(*) FROM lake.called.picked.snapshots;
-- rows: 1
-- [3]

SELECT snapshot_id = ${p1} FROM lake.called.picked.refs WHERE name = 'side';
-- rows: 1
-- [true]

CALL lake.system.cherrypick_snapshot('called.picked', ${p1});
-- rows: 1
-- [${p1}, ${p2}]
-- snapshot p2: lake.called.picked

SELECT id FROM lake.called.picked ORDER BY id;
-- rows: 3
-- [1]
-- [2]
-- [3]

CALL lake.system.cherrypick_snapshot('called.picked', ${p1});
-- error: any

-- Snapshots that expire.
CREATE TABLE lake.called.old (id BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES ('format-version' = '2');
-- rows: 0

INSERT INTO lake.called.old VALUES (1, 'a');
-- rows: 0
-- snapshot e1: lake.called.old

INSERT INTO lake.called.old VALUES (2, 'b');
-- rows: 0

DELETE FROM lake.called.old WHERE kind = 'a';
-- rows: 0
-- snapshot e3: lake.called.old

SELECT count(*) FROM lake.called.old.snapshots;
-- rows: 1
-- [3]

CALL lake.system.expire_snapshots('called.old');
-- rows: 1
-- [0, 0, 0, 0, 0, 0]

CALL lake.system.expire_snapshots(table => 'called.old', older_than => TIMESTAMP'2000-01-01 00:00:00', retain_last => 1);
-- rows: 1
-- [0, 0, 0, 0, 0, 0]

CALL lake.system.expire_snapshots(table => 'called.old', snapshot_ids => array(${e1}));
-- rows: 1
-- [0, 0, 0, 0, 1, 0]

CALL lake.system.expire_snapshots(table => 'called.old', snapshot_ids => array(${e3}));
-- error: any

SELECT count(*) FROM lake.called.old.snapshots;
-- rows: 1
-- [2]

CALL lake.system.expire_snapshots(table => 'called.old', older_than => TIMESTAMP'2100-01-01 00:00:00', retain_last => 1);
-- rows: 1
-- [1, 0, 0, 1, 1, 0]

SELECT snapshot_id FROM lake.called.old.snapshots;
-- rows: 1
-- [${e3}]

SELECT * FROM lake.called.old;
-- rows: 1
-- [2, "b"]

-- Manifests that are put together.
INSERT INTO lake.called.old VALUES (3, 'c');
-- rows: 0

INSERT INTO lake.called.old VALUES (4, 'd');
-- rows: 0

SELECT count(*) FROM lake.called.old.manifests;
-- rows: 1
-- [3]

CALL lake.system.rewrite_manifests('called.old');
-- rows: 1
-- [3, 1]

SELECT count(*) FROM lake.called.old.manifests;
-- rows: 1
-- [1]

SELECT operation FROM lake.called.old.snapshots ORDER BY committed_at DESC LIMIT 1;
-- rows: 1
-- ["replace"]

SELECT id FROM lake.called.old ORDER BY id;
-- rows: 3
-- [2]
-- [3]
-- [4]

-- Files of plain Parquet that a table takes in.
INSERT OVERWRITE DIRECTORY '${folder}/plain' USING parquet SELECT /*+ COALESCE(1) */ id, concat('n', id) AS name FROM range(3);
-- rows: 0

CREATE TABLE lake.called.added (id BIGINT, name STRING) USING iceberg;
-- rows: 0

-- differs: Icefloe counts the changed partition of a table without partitions, Java says null
CALL lake.system.add_files('called.added', '`parquet`.`${folder}/plain`');
-- rows: 1
-- [1, null]

-- only icefloe: Java's catalog in memory does not find the manifests of files it took in
SELECT * FROM lake.called.added ORDER BY id;
-- rows: 3
-- [0, "n0"]
-- [1, "n1"]
-- [2, "n2"]

-- only icefloe: Java's catalog in memory does not find the manifests of files it took in
SELECT id FROM lake.called.added WHERE name = 'n1';
-- rows: 1
-- [1]

CALL lake.system.add_files(table => 'called.added', source_table => '`parquet`.`${folder}/plain`');
-- error: any

-- differs: Icefloe counts the changed partition of a table without partitions, Java says null
CALL lake.system.add_files(table => 'called.added', source_table => '`parquet`.`${folder}/plain`', check_duplicate_files => false);
-- rows: 1
-- [1, null]

-- only icefloe: Java's catalog in memory does not find the manifests of files it took in
SELECT count(*) FROM lake.called.added;
-- rows: 1
-- [6]

CALL lake.system.add_files('called.added', '`parquet`.`${folder}/none`');
-- error: any

ALTER TABLE lake.called.added RENAME COLUMN name TO label;
-- rows: 0

-- only icefloe: Java's catalog in memory does not find the manifests of files it took in
SELECT label, count(*) FROM lake.called.added GROUP BY label ORDER BY label;
-- rows: 3
-- ["n0", 2]
-- ["n1", 2]
-- ["n2", 2]

-- A table under another name.
INSERT INTO lake.called.picked VALUES (4);
-- rows: 0
-- snapshot p3: lake.called.picked
-- metadata m1: lake.called.picked

CALL lake.system.register_table('called.again', '${m1}');
-- rows: 1
-- [${p3}, 4, 4]

SELECT id FROM lake.called.again ORDER BY id;
-- rows: 4
-- [1]
-- [2]
-- [3]
-- [4]

CALL lake.system.register_table('called.again', '${m1}');
-- error: any

CALL lake.system.register_table('called.wrong', '${folder}/none.metadata.json');
-- error: any

CREATE TABLE lake.called.logged (id BIGINT, v STRING) USING iceberg TBLPROPERTIES ('format-version' = '2');
-- rows: 0

INSERT INTO lake.called.logged SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b');
-- rows: 0
-- snapshot l1: lake.called.logged

UPDATE lake.called.logged SET v = 'c' WHERE id = 2;
-- rows: 0
-- snapshot l2: lake.called.logged

INSERT INTO lake.called.logged VALUES (3, 'd');
-- rows: 0
-- snapshot l3: lake.called.logged

CALL lake.system.create_changelog_view('called.logged');
-- rows: 1
-- ["`logged_changes`"]

SELECT id, v, _change_type, _change_ordinal, _commit_snapshot_id FROM logged_changes ORDER BY _change_ordinal, id, _change_type;
-- rows: 5
-- [1, "a", "INSERT", 0, ${l1}]
-- [2, "b", "INSERT", 0, ${l1}]
-- [2, "b", "DELETE", 1, ${l2}]
-- [2, "c", "INSERT", 1, ${l2}]
-- [3, "d", "INSERT", 2, ${l3}]

CALL lake.system.create_changelog_view(table => 'called.logged', changelog_view => 'seen', identifier_columns => array('id'));
-- rows: 1
-- ["seen"]

SELECT id, v, _change_type, _change_ordinal FROM seen ORDER BY _change_ordinal, id, _change_type;
-- rows: 5
-- [1, "a", "INSERT", 0]
-- [2, "b", "INSERT", 0]
-- [2, "c", "UPDATE_AFTER", 1]
-- [2, "b", "UPDATE_BEFORE", 1]
-- [3, "d", "INSERT", 2]

CALL lake.system.create_changelog_view(table => 'called.logged', changelog_view => 'some', options => map('start-snapshot-id', '${l1}', 'end-snapshot-id', '${l2}'));
-- rows: 1
-- ["some"]

SELECT id, v, _change_type, _change_ordinal FROM some ORDER BY _change_ordinal, id, _change_type;
-- rows: 2
-- [2, "b", "DELETE", 0]
-- [2, "c", "INSERT", 0]

CALL lake.system.create_changelog_view(table => 'called.logged', changelog_view => 'timed', options => map('start-timestamp', '${l2.ms}'));
-- rows: 1
-- ["timed"]

SELECT id, v, _change_type FROM timed ORDER BY _change_ordinal, id, _change_type;
-- rows: 1
-- [3, "d", "INSERT"]

CALL lake.system.create_changelog_view(table => 'called.logged', changelog_view => 'none', options => map('start-timestamp', '${l2.ms}', 'end-timestamp', '${l2.ms}'));
-- rows: 1
-- ["none"]

CALL lake.system.create_changelog_view(table => 'called.logged', compute_updates => true);
-- error: any

-- only icefloe: Java binds the condition to the table's own columns, and fails
SELECT count(*) FROM lake.called.logged.changes WHERE _change_type = 'DELETE';
-- rows: 1
-- [2]
