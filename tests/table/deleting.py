"""Program that deletes rows one by one, merge-on-read, for tests that kill it or run several.

    python deleting.py WAREHOUSE TABLE FIRST STEP COUNT
It deletes the rows FIRST, FIRST + STEP, ... and prints each number after its delete is acknowledged.
"""

import sys

from icefloe.catalog.sql_catalog import SqlCatalog


def main() -> None:
    warehouse, name = sys.argv[1:3]
    first, step, count = map(int, sys.argv[3:6])
    table = SqlCatalog("test", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=warehouse).load_table(name)
    for number in range(first, first + step * count, step):
        result = table.delete(f"number = {number}")
        print(f"{number} {result.deleted_records}", flush=True)


if __name__ == "__main__":
    main()
