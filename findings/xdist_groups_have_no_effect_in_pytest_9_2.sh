#!/usr/bin/env bash
# pytest-xdist sends tests of one `xdist_group` to one process (`--dist loadgroup`), but not under pytest 9.2.
#
# Guess before the run: the two tests of a group run in one process under each version of pytest that xdist accepts.
# Seen with pytest-xdist 3.8.0: under pytest 9.1.1 all six tests of the group run in one process and their ids end with "@shared". Under pytest 9.2.0 they run in
# both processes, without an error or a warning. xdist marks the group by writing to the private attribute `_nodeid` of a test, which pytest 9.2 does not read any
# more: its `nodeid` is made from another object. Tests that share a fixture of their module then fail by chance.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
cat > test_group.py <<'PYTHON'
import os
import time

import pytest


@pytest.mark.xdist_group("shared")
@pytest.mark.parametrize("number", range(6))
def test_one_of_a_group(number, request):
    with open("seen.txt", "a") as file:
        file.write(f"{os.environ['PYTEST_XDIST_WORKER']} {request.node.nodeid.endswith('@shared')}\n")
    time.sleep(0.5)
PYTHON
for version in 9.1.1 9.2.0; do
  environment/bin/pip install --quiet "pytest==$version" pytest-xdist==3.8.0
  rm -f seen.txt
  environment/bin/python -m pytest -q -p no:cacheprovider -n 2 --dist loadgroup >/dev/null
  echo "pytest $version: $(sort seen.txt | uniq -c | awk '{print $2, $3, "x" $1}' | paste -sd, | sed 's/,/, /g')"
done | tee output.txt
grep -qE '^pytest 9\.1\.1: gw[01] True x6$' output.txt
grep -qE '^pytest 9\.2\.0: gw0 False x[0-9], gw1 False x[0-9]$' output.txt
