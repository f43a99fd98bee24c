"""Damaged files of any kind are findings of a validation that reads everything: it neither fails nor takes long nor allocates a stated size."""

import random
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.checks.file_breaks import VALUES, file_of, statistics_of, written_files
from tests.checks.stored_table import StoredTable
from tests.combinations import combinations
from tests.repetitions import examples

from icefloe.checks.finding import Finding

SEEDS = examples(40)
MOST_SECONDS = 10.0
MOST_BYTES = 2 << 30


def mutated(content: bytes, seed: int) -> bytes:
    """Return bytes with a random damage: bits flipped, a part cut out, repeated or overwritten with a large number."""
    chance = random.Random(seed)
    data = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        place, kind = chance.randrange(len(data)), chance.randrange(5)
        if kind == 0:
            data[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[place : place + chance.randint(1, 40)]
        elif kind == 2:
            data[place:place] = data[place : place + chance.randint(1, 40)]
        elif kind == 3:
            data[place : place + 8] = b"\xff" * 8
        else:
            data[place : place + 4] = (2**31 - 1).to_bytes(4, "little")
        if not data:
            return b""
    return bytes(data)


def data_file(stored: StoredTable) -> Path:
    return file_of(stored)


def delete_file(stored: StoredTable) -> Path:
    return file_of(stored, 1)


def statistics_file(stored: StoredTable) -> Path:
    return Path(statistics_of(stored, "statistics")["statistics-path"])


def partition_statistics_file(stored: StoredTable) -> Path:
    return Path(statistics_of(stored, "partition-statistics")["statistics-path"])


def data_manifest(stored: StoredTable) -> Path:
    return stored.manifests()[0]


def delete_manifest(stored: StoredTable) -> Path:
    return stored.manifests(1)[0]


def manifest_list(stored: StoredTable) -> Path:
    return stored.manifest_list()


def validated(stored: StoredTable) -> tuple[Finding, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return stored.findings(VALUES)


@pytest.mark.parametrize(
    ("choose", "version"),
    combinations(
        [data_file, delete_file, statistics_file, partition_statistics_file, data_manifest, delete_manifest, manifest_list], [2, 3]
    ),
)
def test_a_damaged_file_is_a_finding_or_harmless_and_never_an_error(
    tmp_path: Path, version: int, choose: Callable[[StoredTable], Path]
) -> None:
    stored = written_files(tmp_path, version)
    assert validated(stored) == ()
    path = choose(stored)
    content = path.read_bytes()
    found = 0
    for seed in range(SEEDS):
        path.write_bytes(mutated(content, seed))
        start = time.process_time()
        findings = validated(stored)
        assert time.process_time() - start < MOST_SECONDS, seed
        found += bool(findings)
    assert found > SEEDS // 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < MOST_BYTES


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_a_damaged_file_of_another_format_is_a_finding_or_harmless(tmp_path: Path, file_format: str) -> None:
    stored = written_files(tmp_path, 2, {"write.format.default": file_format, "write.delete.format.default": file_format})
    assert validated(stored) == ()
    for content in (0, 1):
        path = file_of(stored, content)
        sound = path.read_bytes()
        found = 0
        for seed in range(SEEDS):
            path.write_bytes(mutated(sound, seed))
            start = time.process_time()
            found += bool(validated(stored))
            assert time.process_time() - start < MOST_SECONDS, seed
        path.write_bytes(sound)
        assert found > SEEDS // 2
