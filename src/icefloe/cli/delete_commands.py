"""The commands `convert-equality-deletes` and `rewrite-position-delete-files`. Spec: Equality Delete Files; Position Delete Files; Deletion Vectors."""

from dataclasses import dataclass

from icefloe.cli.maintenance_commands import DryRun, Options, RewrittenBranch, Where, fields_of, given_up, snapshots_text
from icefloe.cli.shared_options import pairs_of
from icefloe.cli.table_command import changes_table
from icefloe.display.report import Facts, Report
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, size_text
from icefloe.maintenance.group_rewrite import FailedGroup
from icefloe.table.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedDeletes(Reportable):
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
        return Report(f"equality deletes of {self.table}", (Facts(tuple(pairs)), *given_up(self.failed, most)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenPositionDeletes(Reportable):
    """The result of a rewrite of position deletes, or with `dry_run` what it would do."""

    table: str
    dry_run: bool
    snapshot_ids: tuple[int, ...]
    considered_files: int
    rewritten_files: int
    added_files: int
    rewritten_bytes: int
    added_bytes: int
    upgraded_files: int
    dangling_files: int
    rewritten_puffin_files: int
    added_puffin_files: int
    left_files: int
    failed: tuple[FailedGroup, ...]

    @property
    def has_faults(self) -> bool:
        """Whether groups of delete files were given up."""
        return bool(self.failed)

    def report(self, most: int | None = MOST_LINES) -> Report:
        would = "would be " if self.dry_run else ""
        pairs = [
            ("snapshot", snapshots_text(self.snapshot_ids, dry_run=self.dry_run)),
            ("considered", count_text(self.considered_files, "delete file")),
            (f"{would}rewritten", f"{count_text(self.rewritten_files, 'delete file')}, {size_text(self.rewritten_bytes)}"),
            (f"{would}added", count_text(self.added_files, "delete file") + ("" if self.dry_run else f", {size_text(self.added_bytes)}")),
        ]
        if self.upgraded_files:
            pairs.append(("to vectors", count_text(self.upgraded_files, "position delete file")))
        if self.rewritten_puffin_files or self.added_puffin_files:
            pairs.append(("Puffin files", f"{self.rewritten_puffin_files:,} to {self.added_puffin_files:,}"))
        if self.dangling_files:
            pairs.append(("dangling", f"{count_text(self.dangling_files, 'delete file')} applied to no data file"))
        if self.left_files:
            pairs.append(("left", f"{count_text(self.left_files, 'delete file')}: too few in a partition to pay"))
        return Report(f"position deletes of {self.table}", (Facts(tuple(pairs)), *given_up(self.failed, most)))


@changes_table
def convert_equality_deletes(
    opened: Table, where: Where = None, options: Options = None, branch: RewrittenBranch = "main", dry_run: DryRun = False
) -> Reportable:
    """Turn equality deletes into deletion vectors or position deletes. No data file is written: version 3 has vectors, version 2 positions."""
    result = opened.maintenance.convert_equality_deletes(where, options=pairs_of(options), branch=branch, dry_run=dry_run)
    return ConvertedDeletes(table=opened.full_name, **fields_of(result))


@changes_table
def rewrite_position_delete_files(
    opened: Table, where: Where = None, options: Options = None, branch: RewrittenBranch = "main", dry_run: DryRun = False
) -> Reportable:
    """Write position deletes into fewer files; in version 3 as deletion vectors into fewer Puffin files."""
    result = opened.maintenance.rewrite_position_delete_files(where, options=pairs_of(options), branch=branch, dry_run=dry_run)
    return RewrittenPositionDeletes(table=opened.full_name, **fields_of(result))
