"""`validate_catalog`: the validation of every table of a catalog or a namespace. A table that cannot be loaded is validated like the others."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from icefloe.catalog.catalog import Catalog
from icefloe.checks.catalog_rules import location_findings, orphan_findings, registered_twice
from icefloe.checks.finding import Finding, Findings
from icefloe.checks.manifest_check import NOT_CHECKED
from icefloe.checks.rule import Depth
from icefloe.checks.table_validation import ValidationArguments, ValidationProgress, ValidationResult, validate_table
from icefloe.errors import FormatError
from icefloe.maintenance.maintain_catalog import table_names
from icefloe.stores.identifier import dotted
from icefloe.table.table_handle import has_no_file


def validate_named(
    catalog: Catalog, name: str, arguments: ValidationArguments | None = None, progress: ValidationProgress | None = None
) -> ValidationResult:
    """Return what breaks the rules in one table of a catalog, also in one that cannot be loaded.

    Args:
        catalog: The catalog.
        name: The name of the table.
        arguments: What is validated.
        progress: Is updated during the run.

    Raises:
        NoSuchTableError: The catalog has no such table.
        StorageUnavailableError: The storage does not respond.
    """
    arguments = arguments or ValidationArguments()
    handle, location = catalog.handle_of(name)
    sent = catalog.load_table(name).metadata if has_no_file(location) else None
    result = validate_table(handle.table_name, location, handle.io, arguments, progress, sent)
    found = list(location_findings(location, handle.io))
    if Depth.ORPHANS in arguments.depths:
        found += _orphans(catalog, name, location)
    return with_findings(result, found, arguments)


def _orphans(catalog: Catalog, name: str, location: str) -> Iterator[Finding]:
    try:
        table = catalog.load_table(name)
    except FormatError:
        yield NOT_CHECKED.finding("the table cannot be loaded, so that its orphan files are unknown", file=location)
        return
    yield from orphan_findings(table)


def with_findings(result: ValidationResult, findings: Iterable[Finding], arguments: ValidationArguments) -> ValidationResult:
    """Return a result with more findings."""
    added = Findings(table=result.table, most=arguments.most_findings)
    added.add(findings)
    counts = Counter(result.counts)
    counts.update(added.counts)
    return replace(result, findings=(*result.findings, *added.kept), counts=dict(counts))


def validate_catalog(
    catalog: Catalog, namespace: str = "", arguments: ValidationArguments | None = None, progress: ValidationProgress | None = None
) -> tuple[ValidationResult, ...]:
    """Return what breaks the rules in each table of a catalog, or of a namespace and those below it, by name.

    Args:
        catalog: The catalog.
        namespace: The namespace; empty for all.
        arguments: What is validated.
        progress: Is updated during the run.

    Raises:
        NoSuchNamespaceError: The namespace does not exist.
        StorageUnavailableError: The storage does not respond.
    """
    names = sorted(map(dotted, table_names(catalog, namespace)))
    arguments = arguments or ValidationArguments()
    results = {result.table: result for result in (validate_named(catalog, name, arguments, progress) for name in names)}
    for name, finding in registered_twice([(one.table, one.metadata_location or None, one.table_uuid) for one in results.values()]):
        results[name] = with_findings(results[name], [finding], arguments)
    return tuple(results.values())
