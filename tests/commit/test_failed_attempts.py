"""An attempt that fails on any of its reads, for example because a file was expired, and the retry after it.

The retry must write the manifests that the failed attempt created but did not write: a manifest list that refers to a missing file makes the table unreadable.
"""

import itertools
from collections.abc import Callable

import pytest
from tests.combinations import combinations
from tests.commit.made_up_table import MadeUpTable, equality_deletes, position_deletes, rows

from icefloe.commit.append import Append
from icefloe.commit.attempt import Action
from icefloe.commit.clustered_entries import Clustering
from icefloe.commit.composite_action import CompositeAction
from icefloe.commit.conflicts import planned_on
from icefloe.commit.overwrite import Overwrite
from icefloe.commit.replace_partitions import ReplacePartitions
from icefloe.commit.rewrite_files import RewriteFiles
from icefloe.commit.rewrite_manifests import RewriteManifests
from icefloe.commit.row_delta import RowDelta
from icefloe.errors import NoSuchFileError

OLD = [rows(f"d{number}", 3 + number, name) for number, name in enumerate("abab")]
NEW = rows("new", 5, "a")

ACTIONS: dict[str, tuple[Callable[[MadeUpTable], Action], set[str]]] = {
    "append": (lambda table: Append([NEW], table.context()), {"d0", "d1", "d2", "d3", "e", "new"}),
    "overwrite": (lambda table: Overwrite(removed=["d0", "d3"], added=[NEW], **table.numbered()), {"d1", "d2", "e", "new"}),
    "replace partitions": (lambda table: ReplacePartitions(added=[NEW], **table.numbered()), {"d1", "d3", "e", "new"}),
    "rewrite files": (
        lambda table: RewriteFiles(removed=[OLD[0], OLD[2]], added=[rows("new", 8, "a")], rules=planned_on(103), **table.numbered()),
        {"d1", "d3", "e", "new"},
    ),
    "row delta": (
        lambda table: RowDelta(added=[NEW], added_deletes=[position_deletes("p", OLD[1], target="d1")], **table.numbered()),
        {"d0", "d1", "d2", "d3", "e", "new", "p"},
    ),
    "rewrite manifests": (lambda table: RewriteManifests(**table.numbered(), clustering=Clustering()), {"d0", "d1", "d2", "d3", "e"}),
    "two in one transaction": (
        lambda table: CompositeAction(
            [Append([NEW], table.context()), Overwrite(removed=["d1"], added=[rows("late", 2, "b")], **table.numbered())]
        ),
        {"d0", "d2", "d3", "e", "new", "late"},
    ),
}


def table_of(merges: str) -> MadeUpTable:
    """Return a table with four data files of two partitions in two manifests, and an equality delete file."""
    table = MadeUpTable(2, {"commit.manifest-merge.enabled": merges, "commit.manifest.min-count-to-merge": "2"})
    table.commit(Append(OLD[:2], table.context(), merge=False))
    table.commit(Append(OLD[2:], table.context(), merge=False))
    table.commit(RowDelta(added_deletes=[equality_deletes("e")], **table.numbered()))
    return table


@pytest.mark.parametrize(("kind", "merges"), combinations([*ACTIONS], ["true", "false"]))
def test_a_retry_after_a_failed_read_writes_every_manifest(kind: str, merges: str) -> None:
    make, live = ACTIONS[kind]
    for failing_read in itertools.count():
        table = table_of(merges)
        action = make(table)
        try:
            action.attempt(table.metadata, number=0, now_ms=1, read=failing(table.read, failing_read))
        except NoSuchFileError:
            table.commit(Append([rows("winner", 1, "c")], table.context(), merge=False))
            table.commit(action)
            assert set(table.live()) == {*live, "winner"}
        else:
            break  # the attempt has no more reads
    assert failing_read > 0


def failing(read: Callable[[str], bytes], failing_read: int) -> Callable[[str], bytes]:
    """Return `read`, which fails from the read of that number on, counted from 0."""
    numbers = itertools.count()

    def read_or_fail(path: str) -> bytes:
        if next(numbers) >= failing_read:
            raise NoSuchFileError(f"there is no file {path}", path=path)
        return read(path)

    return read_or_fail
