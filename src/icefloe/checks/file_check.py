"""`FileCheck`: the check of the data files and delete files of one manifest, which runs in this process or in a Spark task.

A file that cannot be read is a finding, and the check continues with the others. Spec: Data File Fields; Delete Formats.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from icefloe.checks.data_file_rules import TableLayout, data_file_findings, place_of, size_findings
from icefloe.checks.delete_file_rules import by_puffin_file, equality_delete_findings, position_delete_findings, vector_findings
from icefloe.checks.finding import Finding, Findings
from icefloe.checks.listed_files import ListedFile, read_listed_files
from icefloe.checks.manifest_check import ListedManifest, ManifestDigest, read_plain
from icefloe.checks.row_rules import row_findings
from icefloe.checks.rule import Depth, FindingPlace
from icefloe.errors import FormatError, NoSuchFileError, StoragePermissionError, UnsupportedError
from icefloe.operations.available_engines import IN_PROCESS, engine_choice
from icefloe.operations.parallel_requests import in_threads, side_by_side
from icefloe.spec.avro.avro_container import open_container
from icefloe.spec.manifest.data_file import FileContent, FileFormat
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.ports import Parallel
from icefloe.spec.types import StructType

# Files of one task. Each task decodes the manifest up to its last file, so that few large tasks cost least in this process, where they run one after another.
# Spark's tasks run in parallel and are smaller.
FILES_OF_A_TASK, FILES_OF_A_SPARK_TASK = 20_000, 2_000
# The most files that are in memory at once, with all their metrics.
_FILES_AT_ONCE = 1_000
_LEAST_FINDINGS_OF_A_TASK, _SPARE = 10, 20
_Unit = Callable[[], Iterator[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """The files of one manifest that a task checks.

    Attributes:
        manifest: The manifest.
        snapshot_id: The id of the first snapshot that has the manifest.
        positions: The positions of the live entries whose files are checked.
    """

    manifest: ManifestFile
    snapshot_id: int
    positions: tuple[int, ...]

    def parts(self, most: int) -> Iterator["FileTask"]:
        """Split the task into tasks of at most `most` files."""
        for start in range(0, len(self.positions), most):
            positions = self.positions[start : start + most]
            yield FileTask(manifest=self.manifest, snapshot_id=self.snapshot_id, positions=positions)


@dataclass(frozen=True, kw_only=True)
class FileCheck:
    """Checks the files of tasks. It pickles if `parallel` is a function of a module, because Spark's tasks receive it.

    Attributes:
        layout: The metadata of the table.
        partition_types: The types of partition tuples by spec id.
        depths: What is read of the files.
        most: How many findings of each rule are kept.
        parallel: Runs the checks of several files in parallel.
    """

    layout: TableLayout
    partition_types: Mapping[int, StructType]
    depths: frozenset[Depth]
    most: int
    parallel: Parallel = map

    def __call__(self, task: FileTask) -> Findings:
        """Return the findings about the files of a task. Of a damaged manifest, which its own check reports, only the files before the damage are checked."""
        findings = Findings(most=self.most)
        path, manifest = task.manifest.manifest_path, task.manifest
        partition_type = self.partition_types.get(manifest.partition_spec_id, StructType())
        try:
            container = open_container(read_plain(self.layout.io, path), path)
        except (FormatError, UnsupportedError, NoSuchFileError, StoragePermissionError):
            return findings
        files = read_listed_files(container, manifest, partition_type, task.positions)
        while chunk := _next_files(files):
            self._check(chunk, FindingPlace(snapshot_id=task.snapshot_id, file=path), findings)
        return findings

    def _check(self, files: Sequence[ListedFile], place: FindingPlace, findings: Findings) -> None:
        for file_findings in self.parallel(run_check, list(self._units(files, place))):
            findings.add(file_findings)

    def _units(self, files: Sequence[ListedFile], place: FindingPlace) -> Iterator[_Unit]:
        """Yield one check for each file, and one for all deletion vectors of the same Puffin file."""
        vectors = [listed for listed in files if listed.file.file_format is FileFormat.PUFFIN]
        others = [listed for listed in files if listed.file.file_format is not FileFormat.PUFFIN]
        reads = bool(self.depths & {Depth.DATA, Depth.VALUES})
        for listed in others:
            yield partial(self._file_findings if reads else self._size_findings, listed, place)
        for same_file in by_puffin_file(vectors).values():
            yield partial(vector_findings, self.layout, same_file, place) if reads else partial(self._size_findings, same_file[0], place)

    def _size_findings(self, listed: ListedFile, place: FindingPlace) -> Iterator[Finding]:
        kind = "data file" if listed.file.content is FileContent.DATA else "delete file"
        return size_findings(self.layout, listed.file, place_of(listed, place), kind)

    def _file_findings(self, listed: ListedFile, place: FindingPlace) -> Iterator[Finding]:
        content = listed.file.content
        if content is FileContent.POSITION_DELETES:
            return position_delete_findings(self.layout, listed, place)
        if content is FileContent.EQUALITY_DELETES:
            return equality_delete_findings(self.layout, listed, place)
        return self._data_findings(listed, place)

    def _data_findings(self, listed: ListedFile, place: FindingPlace) -> Iterator[Finding]:
        findings = list(data_file_findings(self.layout, listed, place))
        yield from findings
        if Depth.VALUES in self.depths:
            yield from row_findings(self.layout, listed, place, frozenset(finding.rule for finding in findings))


def _next_files(files: Iterator[ListedFile]) -> list[ListedFile]:
    """Return the next files of a manifest; an empty list at its end or after damage."""
    chunk: list[ListedFile] = []
    with suppress(FormatError):
        chunk.extend(islice(files, _FILES_AT_ONCE))
    return chunk


def run_check(unit: _Unit) -> list[Finding]:
    """Run a check in the calling thread."""
    return list(unit())


def check_files(check: FileCheck, tasks: Sequence[FileTask], description: str) -> Iterator[tuple[int, Findings]]:
    """Yield the number of files and the findings of each task, in the order of the tasks. A Spark job checks many files if a session runs.

    Args:
        check: The check. Spark's tasks keep fewer findings of each rule than `check.most`, so that the findings of all tasks fit on the driver.
        tasks: The tasks.
        description: The description of the Spark job.

    Raises:
        StorageUnavailableError: The storage does not respond.
        EngineError: The Spark job failed for another reason.
    """
    engine = engine_choice().for_many(sum(len(task.positions) for task in tasks), engine_choice().checked_files)
    # Fewer files are checked in parallel if their rows are read, because the rows of each are in memory; footers are small.
    parallel = in_threads if Depth.VALUES in check.depths else side_by_side
    if engine is IN_PROCESS:
        check = replace(check, parallel=parallel)
    else:
        most = max(_LEAST_FINDINGS_OF_A_TASK, check.most * _SPARE // len(tasks))
        check = replace(check, most=min(check.most, most), parallel=map if Depth.VALUES in check.depths else side_by_side)
        tasks = [part for task in tasks for part in task.parts(FILES_OF_A_SPARK_TASK)]
    for task, findings in zip(tasks, engine.map(check, tasks, description), strict=True):
        yield len(task.positions), findings


def tasks_of(manifests: Sequence[ListedManifest], digests: Sequence[ManifestDigest]) -> Iterator[FileTask]:
    """Yield the tasks over the live files of manifests. A data file that several manifests have is in one task only.

    Args:
        manifests: The manifests.
        digests: The digest of each manifest, in the same order.
    """
    first = _first_entries([digest for manifest, digest in zip(manifests, digests, strict=True) if not manifest.row.content])
    for manifest, digest in zip(manifests, digests, strict=True):
        positions = digest.live_positions if manifest.row.content else digest.live_positions[first[digest.number]]
        if len(positions):
            whole = FileTask(manifest=manifest.manifest_file(), snapshot_id=manifest.snapshot_id, positions=tuple(positions.tolist()))
            yield from whole.parts(FILES_OF_A_TASK)


def _first_entries(digests: Sequence[ManifestDigest]) -> Mapping[int, NDArray[np.bool_]]:
    """Return for each digest, by the number of its manifest, a mask of the live files that no earlier digest has."""
    if not digests:
        return {}
    hashes = np.concatenate([digest.live_paths for digest in digests])
    mask = np.zeros(len(hashes), np.bool_)
    mask[np.unique(hashes, return_index=True)[1]] = True
    ends = np.cumsum([len(digest.live_paths) for digest in digests])
    return {digest.number: part for digest, part in zip(digests, np.split(mask, ends[:-1]), strict=True)}
