"""Load a CSV file with bad rows into a table: the good rows in one commit, the bad ones beside the file, each with its line and the reason.

python dirty_csv.py trips.csv
"""

import sys
from pathlib import Path

from icefloe import load_catalog
from icefloe.loading import load_files

COLUMNS = "id long, kind string, fare double, pickup timestamp"


def main(path: Path) -> None:
    """Load one file."""
    catalog = load_catalog("lake", uri="lake.db", warehouse="lake")
    result = load_files(catalog, "taxi.trips", str(path), columns=COLUMNS, partition=["month(pickup)"], bad_rows="quarantine")
    print(f"{result.write.added_records} rows loaded, {result.bad_rows} bad rows in {result.bad_rows_file}")
    for bad in result.first_bad_rows:
        print(f"  line {bad.line}, column {bad.column}: {bad.reason}")
    print(catalog.load_table("taxi.trips").scan().to_arrow())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
