"""`validate`: the violations of the specification in a table, a namespace or a catalog. `icefloe.checks` has the rules and checks one table.

Tables that cannot be loaded from the catalog are validated like the others.
"""

from collections.abc import Iterator

from icefloe.catalog.catalog import Catalog
from icefloe.checks.catalog_rules import location_findings, orphan_findings, registered_twice
from icefloe.checks.finding import MOST_FINDINGS, Finding
from icefloe.checks.manifest_check import NOT_CHECKED
from icefloe.checks.rule import Depth
from icefloe.checks.table_validation import ValidationArguments, ValidationProgress, ValidationResult, depths_of, validate_table
from icefloe.checks.validation import Validation, validate_loaded, with_findings
from icefloe.errors import FormatError
from icefloe.inspect.catalog_contents import table_names
from icefloe.operations.loaded_table import TableReader
from icefloe.operations.metadata_cache import has_no_file
from icefloe.spec.identifier import dotted


def validate(
    source: TableReader | Catalog,
    name: str | None = None,
    *,
    current_only: bool = False,
    snapshot: str | None = None,
    files: bool = False,
    data: bool = False,
    values: bool = False,
    orphans: bool = False,
    most_findings: int = MOST_FINDINGS,
    progress: ValidationProgress | None = None,
) -> Validation:
    """Find violations of the specification in a table, or in the tables of a catalog. Nothing is changed.

    Args:
        source: The table, or the catalog.
        name: If `source` is a catalog: the name of a table, which need not be readable, or of a namespace; by default every table is validated.
        current_only: Validate only the current snapshot, not all snapshots of the metadata file.
        snapshot: Validate only this snapshot: its id as text, or the name of a branch or tag.
        files: Check too that each data file, delete file and statistics file exists and has the stated size, by one request for each.
        data: Check footers and headers of data files, and the content of delete files and statistics files too; no rows of data files are read.
        values: Check all rows of data files too: metrics, partition values, sort order and row ids.
        orphans: Report also the files in the table's folder to which no metadata refers.
        most_findings: How many findings of each rule are returned for each table; further ones are only counted.
        progress: Is updated during the run.

    Returns:
        The findings of each table. A damaged file is a finding too.

    Raises:
        NoSuchSnapshotError: The table does not have the snapshot.
        NoSuchTableError: The catalog has no table or namespace of the name.
        StorageUnavailableError: The storage does not respond.
    """
    if isinstance(source, TableReader):
        return validate_loaded(
            source,
            current_only=current_only,
            snapshot=snapshot,
            files=files,
            data=data,
            values=values,
            orphans=orphans,
            most_findings=most_findings,
            progress=progress,
        )
    arguments = ValidationArguments(
        current_only=current_only,
        snapshot=snapshot,
        depths=depths_of(files=files, data=data, values=values, orphans=orphans),
        most_findings=most_findings,
    )
    if name is None or is_namespace(source, name):
        return Validation(name=name or source.name, tables=validate_catalog(source, name or "", arguments, progress))
    return Validation(name=name, tables=(validate_named(source, name, arguments, progress),))


def is_namespace(source: Catalog, name: str) -> bool:
    """Return whether a name is the name of a namespace and not of a table."""
    return len(source.levels(name)) == 1 or (not source.table_exists(name) and source.namespace_exists(name))


def validate_named(
    catalog: Catalog, name: str, arguments: ValidationArguments | None = None, progress: ValidationProgress | None = None
) -> ValidationResult:
    """Find violations of the specification in one table of a catalog. The table need not be loadable.

    Args:
        catalog: The catalog.
        name: The name of the table.
        arguments: What is validated; by default all snapshots, and metadata only.
        progress: Is updated during the run.

    Raises:
        NoSuchTableError: The catalog has no such table.
        StorageUnavailableError: The storage does not respond.
    """
    arguments = arguments or ValidationArguments()
    handle, location = catalog.handle_of(name)
    sent = catalog.load_table(name).metadata if has_no_file(location) else None
    result = validate_table(handle.table_name, location, handle.io, arguments, progress, sent)
    findings = list(location_findings(location, handle.io))
    if Depth.ORPHANS in arguments.depths:
        findings += _orphans(catalog, name, location)
    return with_findings(result, findings, arguments)


def _orphans(catalog: Catalog, name: str, location: str) -> Iterator[Finding]:
    try:
        table = catalog.load_table(name)
    except FormatError:
        yield NOT_CHECKED.finding("the table cannot be loaded, so that its orphan files are unknown", file=location)
        return
    yield from orphan_findings(table)


def validate_catalog(
    catalog: Catalog, namespace: str = "", arguments: ValidationArguments | None = None, progress: ValidationProgress | None = None
) -> tuple[ValidationResult, ...]:
    """Find violations of the specification in each table of a catalog, or of a namespace and the namespaces below it.

    Args:
        catalog: The catalog.
        namespace: The dotted name of the namespace; empty for the whole catalog.
        arguments: What is validated; by default all snapshots, and metadata only.
        progress: Is updated during the run.

    Returns:
        The result of each table, sorted by the name of the table.

    Raises:
        NoSuchNamespaceError: The namespace does not exist.
        StorageUnavailableError: The storage does not respond.
    """
    names = sorted(map(dotted, table_names(catalog, namespace)))
    arguments = arguments or ValidationArguments()
    results = {result.table: result for result in (validate_named(catalog, name, arguments, progress) for name in names)}
    for name, finding in registered_twice(
        [(result.table, result.metadata_location or None, result.table_uuid) for result in results.values()]
    ):
        results[name] = with_findings(results[name], [finding], arguments)
    return tuple(results.values())
