"""Contents of tables, views and catalogs, and explanations of scans and commits, as values. A public package.

    from icefloe.inspect import catalog, listing, table, snapshots, metadata, manifest_list, manifest, data_file, tree, overhead, trace, statistics
        refs, properties, log, health, validate, diff, explain_commit, view_history, view_listing

Each function takes a table (or a catalog) and returns a frozen value: `print` it, display it in a notebook, or call `to_dict()`. The metadata tables, with the
columns of Java's metadata tables, are Arrow tables:

    from icefloe.inspect import METADATA_TABLES, changes, metadata_table
"""

from typing import TYPE_CHECKING

from icefloe.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from icefloe.checks.table_health import health as health
    from icefloe.inspect.branches_and_tags import properties as properties
    from icefloe.inspect.branches_and_tags import refs as refs
    from icefloe.inspect.catalog_contents import catalog as catalog
    from icefloe.inspect.catalog_contents import listing as listing
    from icefloe.inspect.commit_explanation import explain_commit as explain_commit
    from icefloe.inspect.commit_graph import log as log
    from icefloe.inspect.data_file_contents import data_file as data_file
    from icefloe.inspect.manifest_contents import manifest as manifest
    from icefloe.inspect.manifest_contents import manifest_list as manifest_list
    from icefloe.inspect.metadata_file import metadata as metadata
    from icefloe.inspect.metadata_overhead import overhead as overhead
    from icefloe.inspect.scan_trace import trace as trace
    from icefloe.inspect.snapshot_history import snapshots as snapshots
    from icefloe.inspect.table_diff import diff as diff
    from icefloe.inspect.table_overview import table as table
    from icefloe.inspect.table_statistics import statistics as statistics
    from icefloe.inspect.table_tree import tree as tree
    from icefloe.inspect.validation import validate as validate
    from icefloe.inspect.view_contents import view_history as view_history
    from icefloe.inspect.view_contents import view_listing as view_listing
    from icefloe.metadata_tables.changes import changes as changes
    from icefloe.metadata_tables.metadata_table_registry import METADATA_TABLES as METADATA_TABLES
    from icefloe.metadata_tables.metadata_table_registry import MetadataTable as MetadataTable
    from icefloe.metadata_tables.metadata_table_registry import metadata_table as metadata_table
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "icefloe.checks.table_health": "health",
            "icefloe.inspect.branches_and_tags": "properties, refs",
            "icefloe.inspect.catalog_contents": "catalog, listing",
            "icefloe.inspect.commit_explanation": "explain_commit",
            "icefloe.inspect.commit_graph": "log",
            "icefloe.inspect.data_file_contents": "data_file",
            "icefloe.inspect.manifest_contents": "manifest, manifest_list",
            "icefloe.inspect.metadata_file": "metadata",
            "icefloe.inspect.metadata_overhead": "overhead",
            "icefloe.inspect.scan_trace": "trace",
            "icefloe.inspect.snapshot_history": "snapshots",
            "icefloe.inspect.table_diff": "diff",
            "icefloe.inspect.table_overview": "table",
            "icefloe.inspect.table_statistics": "statistics",
            "icefloe.inspect.table_tree": "tree",
            "icefloe.inspect.validation": "validate",
            "icefloe.inspect.view_contents": "view_history, view_listing",
            "icefloe.metadata_tables.changes": "changes",
            "icefloe.metadata_tables.metadata_table_registry": "METADATA_TABLES, MetadataTable, metadata_table",
        },
    )
