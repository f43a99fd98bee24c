"""Rules of the key-value metadata of a manifest: it has the properties that readers need, and agrees with the manifest list and the table.

Spec: Manifests (the properties of the Avro file).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from icefloe.checks.finding import Finding, Severity
from icefloe.checks.issue import REPAIR
from icefloe.checks.manifest_row import ManifestRow
from icefloe.checks.rule import FindingPlace, Level, RuleGroup, value_text
from icefloe.errors import IcefloeError
from icefloe.spec.metadata.document_validation import LATEST_SUPPORTED_VERSION
from icefloe.spec.partitioning.partition_spec import PartitionSpec, fields_from_json
from icefloe.spec.partitioning.source_columns import reason_values_change
from icefloe.spec.partitioning.transforms import VoidTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_json import schema_from_json
from icefloe.spec.schema.type_promotion import is_promotion

_REWRITE = "let icefloe repair write the manifest again, or rewrite the manifests of the table"


_rule = RuleGroup(level=Level.MANIFEST, section="Manifests", next_step=_REWRITE, remedy=REPAIR).rule


HEADER_KEY = _rule(
    "manifest-header",
    Severity.WARNING,
    "A manifest has a schema and a partition spec as properties; from version 2 on also a spec id, a format version and a content.",
    "Engines that read the manifest by its properties fail, or take its deletes for data.",
)
HEADER_SPEC = _rule(
    "manifest-header-spec",
    Severity.ERROR,
    "The partition spec of a manifest's properties is the table's spec that the manifest list names.",
    "Engines decode partition values by another spec, and skip files that hold matching rows.",
)
HEADER_CONTENT = _rule(
    "manifest-header-content",
    Severity.ERROR,
    "The content of a manifest's properties, data or deletes, is that of the manifest list.",
    "An engine reads rows of delete files as data, or ignores deletes.",
)
HEADER_VERSION = _rule(
    "manifest-header-version",
    Severity.ERROR,
    "The format version of a manifest's properties is not above that of the table.",
    "Engines read fields that the table's version does not have, such as row ids or deletion vectors.",
)
PARTITION_PROMOTION = _rule(
    "partition-promotion",
    Severity.ERROR,
    "A column was not promoted since a manifest was written if a partition field of the manifest has another value of the wider type.",
    "Filters are turned into partition values of the wider type, and skip files that hold matching rows.",
    section="Schema Evolution",
    next_step="rewrite the data files of the manifest, for example by rewrite_data_files",
)
RULES = (HEADER_KEY, HEADER_SPEC, HEADER_CONTENT, HEADER_VERSION, PARTITION_PROMOTION)

_CONTENTS = ("data", "deletes")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderContext:
    """The metadata of a table with which the properties of its manifests are compared.

    Attributes:
        format_version: The format version of the table.
        specs: The partition specs by id.
        schema: The current schema; None if it cannot be read.
    """

    format_version: int
    specs: Mapping[int, PartitionSpec]
    schema: Schema | None = None


def header_findings(header: Mapping[str, bytes], row: ManifestRow, context: HeaderContext, place: FindingPlace) -> Iterator[Finding]:
    """Yield the violations in the properties of one manifest."""
    is_version_2 = (row.sequence_number or 0) > 0
    required = ("schema", "partition-spec", *(("partition-spec-id", "format-version", "content") if is_version_2 else ()))
    for key in required:
        if key not in header:
            yield HEADER_KEY.finding(f"the manifest {_name(place)} has no property {key}", where=key, **place)
    texts = {key: str(value, "utf-8", "replace") for key, value in header.items()}
    yield from _json(texts, row, context, place)
    version = texts.get("format-version")
    if version is not None and not (version.isascii() and version.isdigit() and 1 <= int(version[:9]) <= context.format_version):
        yield HEADER_VERSION.finding(
            f"the manifest {_name(place)} has format version {value_text(version)}, and the table {context.format_version}",
            where="format-version",
            expected=context.format_version,
            actual=version,
            **place,
        )
    content = texts.get("content")
    if content is not None and row.content is not None and content != _CONTENTS[row.content]:
        yield HEADER_CONTENT.finding(
            f"the manifest {_name(place)} has the content {value_text(content)}, and its manifest list {_CONTENTS[row.content]}",
            where="content",
            expected=_CONTENTS[row.content],
            actual=content,
            **place,
        )


def _json(texts: Mapping[str, str], row: ManifestRow, context: HeaderContext, place: FindingPlace) -> Iterator[Finding]:
    spec_id = texts.get("partition-spec-id")
    # Another rule reports a spec id of the manifest list that the table does not have.
    if spec_id is not None and row.partition_spec_id in context.specs and spec_id != str(row.partition_spec_id):
        yield HEADER_SPEC.finding(
            f"the manifest {_name(place)} has the spec id {value_text(spec_id)}, and its manifest list {row.partition_spec_id}",
            where="partition-spec-id",
            expected=row.partition_spec_id,
            actual=spec_id,
            **place,
        )
        return
    spec = context.specs.get(row.partition_spec_id if row.partition_spec_id is not None else -1)
    try:
        if "schema" in texts:
            yield from _promotions(_schema(texts["schema"]), spec, context.schema, place)
    except (IcefloeError, ValueError, RecursionError) as error:
        yield HEADER_KEY.finding(f"the schema of the manifest {_name(place)} cannot be read: {_reason(error)}", where="schema", **place)
    try:
        stored = fields_from_json(json.loads(texts["partition-spec"])) if "partition-spec" in texts else None
    except (IcefloeError, ValueError, RecursionError) as error:
        yield HEADER_KEY.finding(
            f"the partition spec of the manifest {_name(place)} cannot be read: {_reason(error)}", where="partition-spec", **place
        )
        return
    if stored is not None and spec is not None and not _is_same(stored, spec):
        yield HEADER_SPEC.finding(
            f"the manifest {_name(place)} has the partition spec {value_text(stored)}, and the table's spec {spec.spec_id} is {value_text(spec)}",
            where="partition-spec",
            expected=str(spec),
            actual=str(stored),
            **place,
        )


def _is_same(stored: PartitionSpec, spec: PartitionSpec) -> bool:
    """Return whether two specs have the same source columns and transforms.

    Names may differ, because a field can be renamed. `void` counts as any transform, because version 1 keeps a dropped field as void.
    """
    if len(stored.fields) != len(spec.fields):
        return False
    return all(
        stored_field.source_ids == other.source_ids
        and (
            stored_field.transform == other.transform
            or isinstance(other.transform, VoidTransform)
            or isinstance(stored_field.transform, VoidTransform)
        )
        for stored_field, other in zip(stored.fields, spec.fields, strict=True)
    )


def _promotions(written: Schema, spec: PartitionSpec | None, current: Schema | None, place: FindingPlace) -> Iterator[Finding]:
    """Yield the partition fields whose source column was promoted since the manifest was written in a way that changes the partition values."""
    if spec is None or current is None:
        return
    for field in spec.fields:
        for source_id in field.source_ids:
            if source_id not in written or source_id not in current:
                continue
            before, after = written.find_type(source_id), current.find_type(source_id)
            is_promoted = before != after and is_promotion(before, after, LATEST_SUPPORTED_VERSION) and field.transform.can_transform(after)
            reason = reason_values_change(field.transform, before, after) if is_promoted else None
            if reason is not None:
                yield PARTITION_PROMOTION.finding(
                    f"column {source_id} had type {before} when the manifest {_name(place)} was written, and has {after} now: partition field "
                    f"{value_text(field.name)} is {value_text(field.transform)} of it, {reason}",
                    where="schema",
                    field_id=field.field_id,
                    expected=str(before),
                    actual=str(after),
                    **place,
                )


@lru_cache(maxsize=64)
def _schema(text: str) -> Schema:
    """Parse the schema of a manifest. The result is cached, because most manifests of a table have the same schema.

    Raises:
        ValueError: The text is not JSON.
        IcefloeError: The schema cannot be decoded.
    """
    return schema_from_json(json.loads(text))


def _reason(error: Exception) -> str:
    if isinstance(error, IcefloeError):
        return value_text("; ".join([error.message, *map(str, error.problems[:5])]))
    return "it is nested too deeply" if isinstance(error, RecursionError) else value_text(error)


def _name(place: FindingPlace) -> str:
    return value_text(place.get("file"))
