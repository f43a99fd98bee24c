"""Files that a load must not trust: what they unpack to, how long a record is, what a value looks like, and where bad rows are written."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from icefloe import SqlCatalog
from icefloe.errors import FileAlreadyExistsError, InvalidInputError, StorageError
from icefloe.loading import LoadResult, load_files

MIB = 1024 * 1024
# A load imports Arrow and Icefloe, and holds a few blocks of 4 MiB and a record of at most 16 MiB.
MOST_MEMORY_KB = 700 * 1024


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(path: str, **request: object) -> LoadResult:
    catalog = SqlCatalog("default", uri="sqlite:///catalog.db", warehouse=os.path.abspath("lake"))
    return load_files(catalog, "n.t", path, **request)


def bomb(name: str, head: bytes, filling: bytes, tail: bytes) -> None:
    """Write a file of at most some MB that unpacks to 1 GiB, or 64 MiB of lines."""
    with gzip.open(name, "wb", compresslevel=1) as file:
        file.write(head)
        for _ in range(64 if filling == b"\n" else 1024):
            file.write(filling * (MIB // len(filling)))
        file.write(tail)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "head", "filling", "tail"),
    [
        ("a.csv.gz", b"id,v\n1,2\n3,", b"x", b"\n4,5\n"),
        ("a.csv.gz", b'id,v\n1,2\n3,"', b"x", b'"\n4,5\n'),
        ("a.csv.gz", b"id,v\n1,2\n", b"\n", b"4,5\n"),
        ("a.json.gz", b'{"id": 1}\n{"v": "', b"x", b'"}\n{"id": 4}\n'),
        ("a.json.gz", b'{"id": 1}\n', b"[", b'\n{"id": 4}\n'),
        ("a.json.gz", b'[{"id": 1}\n,', b"[", b""),
        ("a.json.gz", b'[{"id": 1}\n,{"v": "', b"x", b""),
    ],
)
def test_a_file_that_unpacks_to_a_gigabyte_is_read_in_bounded_memory(name: str, head: bytes, filling: bytes, tail: bytes) -> None:
    bomb(name, head, filling, tail)
    script = (
        "import os, resource\n"
        "from icefloe import SqlCatalog\n"
        "from icefloe.loading import load_files\n"
        "catalog = SqlCatalog('default', uri='sqlite:///catalog.db', warehouse=os.path.abspath('lake'))\n"
        f"result = load_files(catalog, 'n.t', {name!r}, bad_rows='skip')\n"
        "print(result.write.added_records, result.bad_rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    rows, bad_rows, memory_kb = map(int, done.stdout.split())
    assert rows == (2 if tail else 1)
    assert bad_rows == (0 if filling == b"\n" else 1)
    assert memory_kb < MOST_MEMORY_KB


VALUES = [
    "=cmd|' /C calc'!A0",
    "__import__('os').system('touch ran')",
    "${jndi:ldap://host/x}",
    "'; DROP TABLE n.t; --",
    "$(touch ran)",
    "{{7*7}}",
    "!!python/object/apply:os.system ['touch ran']",
]


def _json() -> str:
    Path("a.json").write_text("".join(json.dumps({"v": value}) + "\n" for value in VALUES))
    return "a.json"


def _csv() -> str:
    Path("a.csv").write_text("id,v\n" + "".join(f'1,"{value}"\n' for value in VALUES))
    return "a.csv"


@pytest.mark.parametrize("write", [_json, _csv])
def test_values_are_text_and_never_evaluated(write: "Iterator[str]") -> None:
    table = load(write()).table  # type: ignore[operator]
    assert table.scan().to_arrow()["v"].to_pylist() == VALUES
    assert not Path("ran").exists()


def test_names_of_columns_are_names() -> None:
    Path("a.csv").write_text('"a`; DROP TABLE x","../../b",$(touch ran)\n1,2,3\n')
    table = load("a.csv", partition=["`../../b`"]).table
    assert table.scan().to_arrow().to_pylist() == [{"a`; DROP TABLE x": 1, "../../b": 2, "$(touch ran)": 3}]
    inside = [path for path in Path("lake").rglob("*.parquet") if path.resolve().is_relative_to(Path("lake/n/t").resolve())]
    assert len(inside) == 1
    assert sorted(os.listdir()) == ["a.csv", "catalog.db", "lake"]


def test_bad_rows_are_not_written_through_a_link() -> None:
    Path("a.csv").write_text("id,v\n1,2\nx\n")
    Path("target").write_text("kept")
    for target in ("target", "nowhere"):
        Path("bad").symlink_to(target)
        with pytest.raises(FileAlreadyExistsError):
            load("a.csv", bad_rows="quarantine", bad_rows_file="bad")
        Path("bad").unlink()
    Path("_a.csv.bad-rows").symlink_to("nowhere")
    assert load("a.csv", bad_rows="quarantine").bad_rows_file == os.path.abspath("_a.csv.2.bad-rows")
    assert Path("target").read_text() == "kept"
    assert not Path("nowhere").exists()


def test_a_device_or_a_pipe_is_refused() -> None:
    os.mkfifo("pipe.csv")
    for name in ("pipe.csv", "/dev/zero"):
        with pytest.raises(StorageError, match="a device, a pipe"):
            load(name, file_format="csv")


def test_a_damaged_compressed_file_is_refused_whatever_its_bytes() -> None:
    packed = bytearray(gzip.compress(b"id,v\n" + b"1,2\n" * 1000))
    for place in range(10, len(packed), 3):
        damaged = bytearray(packed)
        damaged[place] ^= 0xFF
        Path("a.csv.gz").write_bytes(damaged)
        with pytest.raises(InvalidInputError):
            load("a.csv.gz", columns="id int, v int")


def test_a_bad_row_of_a_long_array_is_written_without_the_others() -> None:
    rows = ",".join(f'{{"id": "{number}"}}' for number in range(2000))
    Path("a.json").write_text(f"[{rows}]\n[{','.join(['1'] * 5000)}]\n" + '[{"id": 1}]\n')
    result = load("a.json", columns="id long", bad_rows="quarantine")
    assert (result.write.added_records, result.bad_rows) == (1, 2001)
    assert Path(result.bad_rows_file or "").stat().st_size < 200_000
