"""The procedure that plans the repair of a table, or commits it. Spec: Table Metadata; Snapshots."""

from typing import Annotated

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.procedures.procedure import Flag, Names, ProcedureOption, Rows, Text, procedure
from icefloe.repair import plan, undo
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.types import BooleanType, LongType, StringType


@procedure(
    ("repair", StringType()),
    ("chosen", BooleanType()),
    ("applied", BooleanType()),
    ("rules", StringType()),
    ("changes", LongType()),
    ("rows_lost", LongType()),
    ("rows_back", LongType()),
    ("what", StringType()),
    ("named_because", StringType()),
    ("snapshot_id", LongType()),
    ("undo", StringType()),
    optional=("named_because", "snapshot_id", "undo"),
)
def repair(
    catalog: Catalog,
    table: Text,
    apply: Annotated[Flag, ProcedureOption("--apply", "Commit the chosen repairs; without it only the plan is shown.")] = False,
    only: Annotated[
        Names,
        ProcedureOption(
            "--only",
            "Choose this repair, or the repairs of this rule that need not be named; may be repeated. By default all that need not be named.",
            metavar="REPAIR|RULE",
        ),
    ] = (),
    branch: Annotated[Text, ProcedureOption("--branch", "The branch whose newest snapshot is repaired.", metavar="NAME")] = MAIN,
    files: Annotated[Flag, ProcedureOption("--files/--no-files", "Check that each file exists and has its size.")] = True,
    data: Annotated[Flag, ProcedureOption("--data", "Check too footers of data files, delete files and statistics files.")] = False,
    undo_last: Annotated[Flag, ProcedureOption("--undo", "Undo the last repair, if nothing was committed after it.")] = False,
    metadata_file: Annotated[
        Text | None,
        ProcedureOption("--metadata-file", "With --undo: the metadata file of a table that a repair dropped.", metavar="LOCATION"),
    ] = None,
) -> Rows:
    """Plan the repair of a table, and commit it with apply => true. The result has a row for each repair, and for each rule whose findings no repair corrects.

    With undo_last => true, undo the last repair instead. If the repair dropped the table from the catalog, metadata_file is the metadata file of the table.
    """
    if metadata_file is not None and not undo_last:
        raise InvalidInputError("metadata_file is only for undo_last", next_step="add undo_last => true")
    if undo_last:
        if apply or only:
            raise InvalidInputError("undo_last excludes apply and only", next_step="undo first, and then plan again")
        undone = undo(catalog, table, branch=branch, metadata_file=metadata_file)
        return [(", ".join(undone.repairs), True, True, "", 0, 0, 0, "the last repair is undone", None, undone.snapshot_id, None)]
    planned = plan(catalog, table, only=tuple(only), branch=branch, files=files, data=data)
    result = planned.apply() if apply and planned.chosen else None
    rows = [
        (
            repair.repair,
            repair.is_chosen,
            repair.is_chosen and result is not None,
            ", ".join(repair.rules),
            repair.count,
            sum(repair.rows_lost.values()),
            sum(repair.rows_back.values()),
            repair.text,
            repair.named_because or None,
            result.snapshot_id if result is not None and repair.is_chosen else None,
            planned.undo or None if repair.is_chosen else None,
        )
        for repair in planned.repairs
    ]
    left = [
        ("none", False, False, repair.rule, repair.count, 0, 0, f"{repair.why}; next: {repair.next_step}", None, None, None)
        for repair in planned.left
    ]
    return [*rows, *left]
