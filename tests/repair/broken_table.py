"""A table whose files a test breaks, with its rows before, and the repair of it."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.checks.breaks import Break
from tests.checks.file_breaks import written_files
from tests.checks.stored_table import StoredTable, written_table

from icefloe import SqlCatalog
from icefloe.checks.finding import Finding
from icefloe.checks.rule import Depth
from icefloe.checks.table_validation import ValidationArguments, validate_table
from icefloe.operations.metadata_cache import METADATA_FILES
from icefloe.repair import plan, undo
from icefloe.repair.repair_plan import RepairPlan, RepairResult
from icefloe.table import Table


@dataclass(frozen=True)
class BrokenTable:
    """The table `db.t` in a folder."""

    folder: Path
    stored: StoredTable

    @classmethod
    def of(cls, folder: Path, version: int = 2) -> "BrokenTable":
        """Return a table of several commits, not broken yet."""
        return cls(folder, StoredTable(Path(written_table(folder, version).metadata_location)))

    @classmethod
    def of_files(cls, folder: Path, version: int = 2, **properties: str) -> "BrokenTable":
        """Return a table of one append and one delete with statistics, not broken yet."""
        return cls(folder, written_files(folder, version, properties))

    @property
    def catalog(self) -> SqlCatalog:
        METADATA_FILES.clear()  # a test changes files in place
        return SqlCatalog("lake", uri=f"sqlite:///{self.folder}/catalog.db", warehouse=str(self.folder))

    @property
    def table(self) -> Table:
        return self.catalog.load_table("db.t")

    def rows(self, table: Table | None = None) -> list[str]:
        return sorted(map(str, (table or self.table).scan().to_arrow().to_pylist()))

    def break_by(self, broken: Break | Callable[[StoredTable], object]) -> None:
        (broken.change if isinstance(broken, Break) else broken)(self.stored)

    def plan(self, *only: str, data: bool = True, branch: str = "main") -> RepairPlan:
        return plan(self.catalog, "db.t", only=only, data=data, branch=branch)

    def undo(self) -> RepairResult:
        return undo(self.catalog, "db.t")

    def location(self) -> str:
        return self.catalog.handle_of("db.t")[1]

    def findings(self) -> list[Finding]:
        """Return what is wrong with the current snapshot and its files."""
        handle, location = self.catalog.handle_of("db.t")
        arguments = ValidationArguments(current_only=True, depths=frozenset({Depth.DATA}))
        return list(validate_table("t", location, handle.io, arguments).findings)

    def files(self) -> dict[str, bytes]:
        """Return every file of the table."""
        paths = (Path(folder) / name for folder, _, names in os.walk(self.folder / "db") for name in names)
        return {str(path): path.read_bytes() for path in paths}

    def live_files(self) -> set[str]:
        return set(self.table.inspect.files()["file_path"].to_pylist())
