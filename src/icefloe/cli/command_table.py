"""The commands of `icefloe` by their headings in the help text, in order; each with its location below `icefloe.cli`, and the first sentence of its help text.

A command is imported when it is called: its module may need Arrow, SQLAlchemy or a drawing library, which `icefloe --help` does not need.
"""

COMMANDS = {
    "Look": {
        "list": ("show_commands:list_tables", "List namespaces, tables and views."),
        "describe": ("catalog_commands:describe", "Describe a table, a view or a namespace."),
        "head": ("row_commands:head", "Print the first rows of a table; of many files only a few are read."),
        "sql": ("row_commands:sql", "Run a SQL statement and print its rows."),
        "tree": ("show_commands:show_tree", "Show a table from its catalog down to its data files, with counts and sizes."),
        "log": (
            "show_commands:show_log",
            "Show the snapshots that led to a branch, newest first; with --graph those of all branches and tags, and staged ones.",
        ),
        "files": ("show_commands:list_files", "List data files and delete files with their rows and sizes."),
        "validate": ("validate_command:validate", "Find what breaks the rules of the specification in a table, a namespace or a catalog."),
        "health": (
            "show_commands:show_health",
            "Measure what readers of a table pay for: small files, deletes, clustering, manifests, snapshots, each with its threshold and the reason.",
        ),
        "refs": ("show_commands:list_refs", "List branches and tags: their snapshots, and how long they are kept."),
        "location": ("show_commands:show_location", "Print the folder of a table."),
        "uuid": ("show_commands:show_uuid", "Print the UUID of a table."),
        "trace": (
            "show_commands:show_trace",
            "Explain why a query reads what it reads: what is kept and skipped at each level, and the bound that decided.",
        ),
        "diff": (
            "diff_commands:diff",
            "Compare two snapshots, branches or tags of a table, or two tables: what changed in layout, files, partitions, statistics and rows.",
        ),
        "changes": (
            "changes_command:changes",
            "Write the rows that snapshots inserted, deleted and updated, as lines of JSON or as files; with --follow also those of snapshots to come.",
        ),
        "explain": ("diff_commands:app", "Explain a commit: why it was retried, and what it was checked against."),
        "show": ("show_commands:app", "Show one level of a table."),
        "explore": (
            "explore_command:explore",
            "Serve a page that shows a table from its catalog to the bytes of its files, what is wrong with it, and why queries read what they read.",
        ),
    },
    "Change": {
        "create": ("catalog_commands:create", "Create an empty table, and its namespace if that does not exist."),
        "rename": ("catalog_commands:rename", "Rename a table or a view; its files are not moved."),
        "drop": ("catalog_commands:drop", "Drop a table, a view or an empty namespace."),
        "register": ("catalog_commands:register", "Register a table that exists as files, such as a dropped one."),
        "namespace": ("catalog_commands:namespace_app", "Namespaces: list, create, show, change and drop them."),
        "view": ("view_commands:app", "Views: stored queries, each in one or several SQL dialects."),
        "schema": ("schema_commands:schema_app", "Columns: show, add, rename, widen, move and drop them."),
        "spec": ("schema_commands:spec_app", "Partition fields: show, add, rename and remove them."),
        "sort": ("schema_commands:sort", "Show the sort order of new files, or replace it."),
        "properties": ("property_commands:properties_app", "Show a table's properties, or print, set or remove some."),
        "upgrade": ("property_commands:upgrade", "Raise a table's format version."),
        "branch": ("ref_commands:branch_app", "Create, move, retain and remove branches."),
        "tag": ("ref_commands:tag_app", "Create, move, retain and remove tags."),
        "rollback": ("ref_commands:rollback", "Set a branch back to an earlier snapshot of its own history."),
        "cherry-pick": (
            "ref_commands:cherry_pick",
            "Apply the change of a snapshot to a branch: of an append, or of an overwrite of whole partitions.",
        ),
        "publish": ("ref_commands:publish", "Publish a staged snapshot by its wap id."),
    },
    "Maintain": {
        "maintain": (
            "maintenance_commands:maintain",
            "Do what keeps tables quick to read, where it pays: expiry, deletes, compaction, manifests, statistics.",
        ),
        "expire": ("maintenance_commands:expire", "Remove old snapshots, and delete the files that nothing else needs."),
        "rewrite-data-files": (
            "maintenance_commands:rewrite_data_files",
            "Compact data files: small ones and those with many deletes become files of the target size with the same rows.",
        ),
        "repair": ("repair_command:repair", "Show what is wrong in a table and what each repair would change; commit it with --apply."),
        "convert-equality-deletes": (
            "maintenance_commands:convert_equality_deletes",
            "Turn equality deletes into deletion vectors or position deletes.",
        ),
        "rewrite-position-delete-files": (
            "maintenance_commands:rewrite_position_delete_files",
            "Write position deletes into fewer files; in version 3 as deletion vectors into fewer Puffin files.",
        ),
        "remove-dangling-deletes": ("maintenance_commands:remove_dangling_deletes", "Remove delete files that apply to no data file."),
        "remove-orphan-files": (
            "maintenance_commands:remove_orphan_files",
            "Delete files in the table's folder that nothing references; or list them with --quarantine, and delete them later with --purge.",
        ),
        "rewrite-manifests": (
            "maintenance_commands:rewrite_manifests",
            "Put the entries of small or unsorted manifests into manifests of the target size.",
        ),
        "compute-table-stats": (
            "maintenance_commands:compute_table_stats",
            "Count the distinct values of columns, and commit them as statistics of the snapshot.",
        ),
        "compute-partition-stats": (
            "maintenance_commands:compute_partition_stats",
            "Count rows, files and deletes of each partition, on top of the last such statistics, and commit them.",
        ),
        "rewrite-table-path": (
            "maintenance_commands:rewrite_table_path",
            "Prepare a copy of a table at another place, and with --copy and --verify make and compare it.",
        ),
        "call": (
            "call_command:call_procedure",
            "Run a procedure with the names and arguments of Java's Iceberg, such as add_files or ancestors_of; without a name they are listed.",
        ),
    },
    "Files in": {
        "snapshot": ("maintenance_commands:snapshot", "Create a table over the files of a folder."),
        "migrate": ("maintenance_commands:migrate", "Make a table of a folder of files in its place: the files become the table's."),
        "load": ("load_command:load", "Load files into a table, in one commit."),
    },
    "Serve": {
        "serve": ("serve_command:serve", "Serve a catalog to other engines, as an Iceberg REST catalog."),
        "connect-server": (
            "connect_server_command:connect_server",
            "Serve Spark Connect: clients have the catalogs in their SQL, with nothing of Icefloe on their side.",
        ),
        "server-user": ("serve_command:server_user", "Add a user of the server to a file, and print the new token once."),
    },
    "Set up": {
        "doctor": ("doctor_command:doctor", "Check the installation, Spark and Java, the configuration, the catalogs and their storage."),
        "completion": ("completion_command:completion", "Print the completion script of a shell."),
        "demo": ("demo:demo", "Load 336,776 flights and 90,000 events into Iceberg tables with Spark, and walk through their metadata."),
        "version": ("installed_versions:show_version", "Show the versions of Icefloe, PySpark, PyArrow and the Java that was found."),
    },
}
