"""The procedure that removes orphan files. Spec: File System Operations (deletes)."""

from datetime import timedelta

from icefloe.catalog.catalog import Catalog
from icefloe.maintenance.orphan_report import OrphanMode
from icefloe.procedures.procedure import Flag, Int, Rows, Text, Texts, Time, View, WiderRows, procedure
from icefloe.spec.types import StringType


@procedure(("orphan_file_location", StringType()))
def remove_orphan_files(
    catalog: Catalog,
    table: Text,
    older_than: Time | None = None,
    location: Text | None = None,
    dry_run: Flag = False,
    max_concurrent_deletes: Int | None = None,
    file_list_view: View | None = None,
    equal_schemes: Texts | None = None,
    equal_authorities: Texts | None = None,
    prefix_mismatch_mode: Text = "ERROR",
    prefix_listing: Flag = False,  # noqa: ARG001 an argument of Java's; here object stores are always listed by prefix
    stream_results: Flag = False,
    mode: Text = "delete",
    purge_delay_days: Int = 7,
    force: Flag = False,
    engine: Text | None = None,
) -> Rows:
    """Delete files in the table's folder that nothing references; or list them first, and delete them later."""
    result = catalog.load_table(table).maintenance.remove_orphan_files(
        older_than,
        location,
        mode=mode,
        dry_run=dry_run,
        max_concurrent_deletes=max_concurrent_deletes,
        stream_results=stream_results,
        file_list_view=file_list_view,
        equal_schemes=equal_schemes,
        equal_authorities=equal_authorities,
        prefix_mismatch_mode=prefix_mismatch_mode,
        purge_delay=timedelta(days=purge_delay_days),
        force=force,
        engine=engine,
    )
    if result.mode is OrphanMode.UNDO:
        return [(location,) for location in result.lists]
    paths = result.files["path"].to_pylist()
    if not result.undeleted_files:
        return [(path,) for path in paths]
    # Java's column, and one more where files could not be deleted.
    problems = {problem.where: problem.what for problem in result.undeleted}
    return WiderRows([(path, problems.get(path, "")) for path in paths], ("not_deleted_because", StringType()))
