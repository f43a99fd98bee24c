"""A differential run of SQL: `make fuzz-sql`, or `python -m tests.fuzz_sql --queries 20000 --seed 7`.

Each table has a random history, and random statements read it after every step. The judge is the same rows in plain Parquet files of Spark; all rows are also
compared with what DuckDB reads. A difference is made small, printed as a script that repeats it, and kept under `.fuzz/`. `--table 12 --family mixed` runs one
table of a seed again.
"""

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from tests.comet import VERSION, comet_jar, comet_settings
from tests.fuzz_sql.duckdb_opinion import DuckDB
from tests.fuzz_sql.run import FAMILIES, Run, started_lake

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".fuzz"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_sql", description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=20_000, help="how many statements are compared")
    parser.add_argument("--seed", type=int, default=0, help="of all choices; the same seed gives the same tables and statements")
    parser.add_argument("--table", type=int, help="only this table of the seed")
    parser.add_argument("--family", choices=FAMILIES, help="only tables of this kind; else each number has a table of each")
    parser.add_argument("--first-table", type=int, default=0, help="begin with this table of the seed")
    parser.add_argument("--differences", type=int, default=10, help="stop after so many")
    parser.add_argument(
        "--shrink-seconds", type=float, default=240, help="the longest time for making a difference small; 0 leaves it as it is"
    )
    parser.add_argument(
        "--setting", action="append", default=[], metavar="NAME=VALUE", help="a setting of the session; may be given several times"
    )
    parser.add_argument("--comet", action="store_true", help="with Apache DataFusion Comet, whose JAR is in the local Maven cache")
    return parser.parse_args()


def _settings(arguments: argparse.Namespace) -> dict[str, str]:
    given = dict(setting.split("=", 1) for setting in arguments.setting)
    if not arguments.comet:
        return given
    jar = comet_jar(version("pyspark"))
    if jar is None:
        raise SystemExit(f"the local Maven cache has no Comet {VERSION} for Spark {version('pyspark')} (Maven Central has it for 4.1)")
    return comet_settings(jar) | given


def main() -> int:
    """Run the statements of the command line, and return 1 if there was a difference."""
    arguments = _arguments()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="fuzz_sql_") as folder:
        lake = started_lake(Path(folder), _settings(arguments))
        duckdb = DuckDB.installed(Path(folder))
        lake.duckdb = duckdb if isinstance(duckdb, DuckDB) else None
        families = [arguments.family] if arguments.family else FAMILIES
        run = Run(lake, arguments.seed, shrink_seconds=arguments.shrink_seconds)
        first = number = arguments.table or arguments.first_table
        start = printed = time.monotonic()
        with suppress(KeyboardInterrupt):  # the counts so far are worth something
            while run.statements < arguments.queries and len(run.differences) < arguments.differences:
                for family in families:
                    for text in run.table(number, family):
                        KEPT.mkdir(exist_ok=True)
                        (KEPT / f"sql-{arguments.seed}-{number}-{family}.txt").write_text(text)
                        print(text, flush=True)
                number += 1
                if arguments.table is not None:
                    break
                if time.monotonic() - printed > 30:
                    printed = time.monotonic()
                    print(
                        f"{run.statements} statements, the next table is {number}, {run.statements / (printed - start):.1f} a second",
                        flush=True,
                    )
        took = time.monotonic() - start
        _print_counts("statements", run.labels)
        _print_counts("run one by one", run.one_by_one)
        _print_counts("refused by both", run.both_refused)
        _print_counts("steps refused by the table", run.refused)
        _print_counts("known differences", lake.known)
        if isinstance(duckdb, DuckDB):
            duckdb.close()
            _print_counts("not read by DuckDB", run.not_read_by_duckdb)
        for name, reason in run.refused_types.items():
            print(f"no columns of {name}: {reason[:300]}")
        by_duckdb = f"DuckDB had the rows {run.read_by_duckdb} times" if isinstance(duckdb, DuckDB) else f"without DuckDB: {duckdb}"
        print(
            f"{run.statements} statements on {number - first} numbers of {' and '.join(families)} tables, {len(run.differences)} differences, "
            f"seed {arguments.seed}, {run.statements / took:.1f} a second; {by_duckdb}"
        )
    return 1 if run.differences else 0


def _print_counts(title: str, counts: Counter[str]) -> None:
    print(f"{title}: {sum(counts.values())}")
    for name, count in counts.most_common(25):
        print(f"  {count:6} {name[:220]}")


if __name__ == "__main__":
    sys.exit(main())
