"""PyIceberg's own tests, run on Icefloe with renamed imports, with their results compared to the list of expected differences.

    python -m tests.pyiceberg_suite                               every file
    python -m tests.pyiceberg_suite tests/table/test_upsert.py    files, or tests as pytest names them
    python -m tests.pyiceberg_suite --list                        also list the expected differences by test
    python -m tests.pyiceberg_suite --server                      tests of catalogs and of integration, with PyIceberg itself, on `icefloe serve`

The exit code is 1 if the result of a test differs from the list, and 2 if something could not be fetched.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

from tests.pyiceberg_suite.expected import LIST, Difference, differences, expected_as, files_to_run
from tests.pyiceberg_suite.fetched import CACHE, SITE, SUITE, VERSION, MissingToolError, fetch
from tests.pyiceberg_suite.served import EXPECTED, FILES, run_on_server
from tests.pyiceberg_suite.snippets import run_snippets

HERE = Path(__file__).parent
RESULTS = CACHE / "results.jsonl"
PYTEST = [
    *("-q", "--no-header", "--tb=no", "--rootdir", ".", "-c", "/dev/null", "-p", "no:cacheprovider", "-p", "suite_results"),
    *("-W", "ignore", "--disable-warnings", "--continue-on-collection-errors"),
]
RENAMED = ["-p", "renamed_imports", "-m", "not integration and not s3 and not adls and not gcs"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make test-pyiceberg-suite", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tests", nargs="*", help="files or tests; by default every one that is not left out")
    parser.add_argument("--list", action="store_true", help="list the expected differences by test")
    parser.add_argument("--server", action="store_true", help="PyIceberg itself, with `icefloe serve` as its catalog")
    arguments = parser.parse_args()
    RESULTS.unlink(missing_ok=True)
    environment = {**os.environ, "ICEFLOE_SUITE_RESULTS": str(RESULTS), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        fetch()
        files = arguments.tests or (list(FILES) if arguments.server else files_to_run(SUITE))
        print(f"running {len(files)} files of PyIceberg {VERSION}", flush=True)
        if arguments.server:
            run_on_server(files, [*PYTEST, "-p", "served_catalog"], environment)
            return report(EXPECTED, is_whole=not arguments.tests, lists=arguments.list)
        environment["PYTHONPATH"] = os.pathsep.join([str(HERE), str(SITE)])
        subprocess.run([sys.executable, "-m", "pytest", *PYTEST, *RENAMED, *files], cwd=SUITE, env=environment, check=False)
    except MissingToolError as error:
        print(f"make test-pyiceberg-suite: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped")
        return 130
    code = report(LIST, is_whole=not arguments.tests, lists=arguments.list)
    return max(code, 0 if arguments.tests else run_snippets(environment))


def report(listing: Path, *, is_whole: bool, lists: bool) -> int:
    """Print the failures that are not on the list, and the counts; return 1 if there are such failures or stale entries."""
    results = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.is_file() else []
    if not results:
        print("no test ran")
        return 1
    listed = differences(listing)
    by_reason: dict[str, list[str]] = defaultdict(list)
    used: set[Difference] = set()
    unexpected = []
    for result in results:
        if result["status"] != "failed":
            continue
        known = expected_as(result, listed)
        if known is None:
            unexpected.append(result)
        else:
            used.add(known)
            by_reason[known.reason].append(result["test"])
    for result in unexpected:
        print(f"FAILED {result['test']}\n    {result['reason']}")
    stale = [one for one in listed if one not in used] if is_whole else []
    for one in stale:
        print(f"NOT A DIFFERENCE ANY MORE: {one.text or one.pattern}: take it off tests/pyiceberg_suite/{listing.name}")
    for reason, tests in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        print(f"{len(tests):5} expected: {reason}")
        for test in tests if lists else ():
            print(f"          {test}")
    counts = Counter(result["status"] for result in results)
    print(
        f"{len(results)} tests: {counts['passed']} passed, {counts['other words']} passed with other words in an error, "
        f"{counts['failed'] - len(unexpected)} expected differences, {len(unexpected)} not on the list, {counts['skipped']} skipped by themselves"
    )
    return 1 if unexpected or stale else 0


if __name__ == "__main__":
    sys.exit(main())
