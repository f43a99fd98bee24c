"""Program that drops a table of a file-system catalog, killed with SIGKILL before its first, second, ... deletion, and prints the state after each kill.

`python dropping.py WAREHOUSE drop|purge drop|purge|create|namespace ...`: how the table is dropped, and the next calls, which take turns from kill to kill.
It prints a line of JSON for each kill.
"""

import json
import os
import signal
import sys
from typing import Any

import pyarrow as pa

from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import IcefloeError

SCHEMA = pa.schema([("n", pa.int64())])
DELETIONS = frozenset({"os.remove", "os.rmdir", "os.rename"})


def killed(warehouse: str, how: str, before: int) -> bool:
    """Drop the table in a process that is killed before deletion number `before`; return whether it was killed."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    count = 0

    def kill(event: str, _: tuple[Any, ...]) -> None:
        nonlocal count
        count += event in DELETIONS
        if event in DELETIONS and count == before:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill)
    FileSystemCatalog("lake", warehouse=warehouse).drop_table("db.t", purge=how == "purge")
    os._exit(0)


def found_by_name(warehouse: str) -> object:
    """Return the rows of the table, or the code of the error."""
    try:
        return sorted(FileSystemCatalog("lake", warehouse=warehouse).load_table("db.t").scan().to_arrow()["n"].to_pylist())
    except IcefloeError as error:
        return error.code


def call_again(warehouse: str, how: str) -> None:
    catalog = FileSystemCatalog("lake", warehouse=warehouse)
    if how == "namespace":
        catalog.drop_namespace("db")
    elif how == "create":
        catalog.create_table("db.t", SCHEMA)
        if catalog.load_table("db.t").scan().count():
            raise AssertionError("rows of the dropped table are in the new one")
        catalog.drop_table("db.t")
    else:
        catalog.drop_table("db.t", purge=how == "purge")


def main(warehouse: str, how: str, *again: str) -> None:
    os.makedirs(warehouse)
    for before in range(1, 1000):
        catalog = FileSystemCatalog("lake", warehouse=warehouse)
        catalog.create_namespace_if_not_exists("db")
        table = catalog.create_table("db.t", SCHEMA)
        for number in range(2):
            table.append(pa.table({"n": [number]}))
        if not killed(warehouse, how, before):
            break
        found = {"name": found_by_name(warehouse), "tables": catalog.list_tables("db"), "namespaces": catalog.list_namespaces("db")}
        intact = found["name"] == [0, 1]
        if intact:
            catalog.drop_table("db.t")
        else:
            # After the last file only the empty folder of dropped tables remains, which the drop of the namespace removes.
            call_again(warehouse, again[before % len(again)] if found["name"] == "unfinished-drop" else "namespace")
        print(
            json.dumps(
                {**found, "left": sorted(name for _, folders, names in os.walk(warehouse) for name in (*folders, *names) if name != "db")}
            )
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
