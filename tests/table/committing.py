"""Program that appends to a table repeatedly, for tests that kill it or run several.

    python committing.py WAREHOUSE TABLE LABEL COUNT
It prints the label and number of every acknowledged append.
"""

import sys

import pyarrow as pa

from icefloe.catalog.sql_catalog import SqlCatalog


def main() -> None:
    warehouse, name, label, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    table = SqlCatalog("test", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=warehouse).load_table(name)
    for number in range(count):
        table.append(pa.table({"label": [label] * 3, "number": pa.array([number] * 3, pa.int64())}))
        print(f"{label} {number}", flush=True)


if __name__ == "__main__":
    main()
