#!/usr/bin/env bash
# PyArrow casts timestamps beyond year 32767 to text: with a time zone the year is another one, without an error.
#
# Guess before the run: the cast either prints the right year or marks the value, with and without a zone alike.
# Seen with pyarrow 26.0.1: without a zone the text says that the value is out of range. With a zone the year wraps at 16 bits: 33658 becomes -31878, and the year 148108 becomes 17036.
# The numbers are valid in both columns, and a cast to int64 and back keeps them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip install --quiet pyarrow==26.0.1
cat > run.py <<'PYTHON'
import pyarrow as pa

DAYS_OF_400_YEARS, DAY = 146_097, 86_400_000_000


def midsummer(year):
    """Return a time in the middle of a year, a whole number of 400 years after one that Python's calendar has, in microseconds since 1970."""
    import datetime

    cycles = (year - 2000) // 400
    near = datetime.date(year - 400 * cycles, 7, 1) - datetime.date(1970, 1, 1)
    return (near.days + cycles * DAYS_OF_400_YEARS) * DAY


print("version", pa.__version__)
for year in (2024, 32_700, 33_658, 148_108):
    micros = pa.array([midsummer(year)], pa.int64())
    zoned, plain = (micros.cast(pa.timestamp("us", zone)) for zone in ("UTC", None))
    assert zoned.cast(pa.int64()) == micros == plain.cast(pa.int64())
    print(year, "| with a zone:", zoned.cast(pa.string())[0], "| without:", plain.cast(pa.string())[0])
PYTHON
environment/bin/python run.py | tee seen.txt
cat > expected.txt <<'TEXT'
version 26.0.1
2024 | with a zone: 2024-07-01 00:00:00.000000Z | without: 2024-07-01 00:00:00.000000
32700 | with a zone: 32700-07-01 00:00:00.000000Z | without: 32700-07-01 00:00:00.000000
33658 | with a zone: -31878-07-01 00:00:00.000000Z | without: <value out of range: 999992390400000000>
148108 | with a zone: 17036-07-01 00:00:00.000000Z | without: <value out of range: 4611685536000000000>
TEXT
diff expected.txt seen.txt
