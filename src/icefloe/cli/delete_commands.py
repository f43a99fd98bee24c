"""The command `convert-equality-deletes`. Spec: Equality Delete Files; Deletion Vectors."""

from dataclasses import dataclass

from icefloe.cli.maintenance_commands import DryRun, Options, RewrittenBranch, Where, fields_of, snapshots_text
from icefloe.cli.shared_options import pairs_of
from icefloe.cli.table_command import changes_table
from icefloe.display.formatting import count_text
from icefloe.display.report import Column, Facts, Report, grid
from icefloe.inspect.inspection import MOST_LINES, View
from icefloe.maintenance.rewrite_data_files import FailedGroup
from icefloe.table.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedDeletes(View):
    """The result of a conversion of equality deletes, or with `dry_run` what it would do."""

    table: str
    dry_run: bool
    snapshot_ids: tuple[int, ...]
    equality_delete_files: int
    converted_delete_files: int
    searched_data_files: int
    added_delete_files: int
    replaced_delete_files: int
    failed: tuple[FailedGroup, ...]

    @property
    def has_faults(self) -> bool:
        """Whether data files were given up."""
        return bool(self.failed)

    def report(self, most: int | None = MOST_LINES) -> Report:
        """See `View.report`."""
        would = "would be " if self.dry_run else ""
        pairs = [
            ("snapshot", snapshots_text(self.snapshot_ids, dry_run=self.dry_run)),
            ("considered", count_text(self.equality_delete_files, "equality delete file")),
            (f"{would}converted", count_text(self.converted_delete_files, "equality delete file")),
            (f"{would}searched", count_text(self.searched_data_files, "data file")),
        ]
        if not self.dry_run:
            pairs.append(("added", count_text(self.added_delete_files, "delete file")))
        if self.replaced_delete_files:
            pairs.append(("replaced", count_text(self.replaced_delete_files, "older delete file")))
        failed = grid(
            "given up", (Column("files", is_number=True), Column("reason")), [(f"{one.files:,}", one.reason) for one in self.failed], most
        )
        return Report(f"equality deletes of {self.table}", (Facts(tuple(pairs)), *((failed,) if self.failed else ())))


@changes_table
def convert_equality_deletes(
    opened: Table, where: Where = None, options: Options = None, branch: RewrittenBranch = "main", dry_run: DryRun = False
) -> View:
    """Turn equality deletes into deletion vectors or position deletes. No data file is written: version 3 has vectors, version 2 positions."""
    result = opened.maintenance.convert_equality_deletes(where, options=pairs_of(options), branch=branch, dry_run=dry_run)
    return ConvertedDeletes(table=opened.full_name, **fields_of(result))
