"""The list of differences from Java's Iceberg and the documentation agree."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADING = "## Where Java's Iceberg does otherwise\n"


def _section() -> str:
    return (ROOT / "docs/sql.md").read_text().partition(HEADING)[2].partition("\n## ")[0]


def test_the_documentation_names_every_documented_difference_and_no_other() -> None:
    listed = tomllib.loads((ROOT / "tests/java_suite/expected.toml").read_text())["difference"]
    bullets = {line[2:].removesuffix(".") for line in _section().splitlines() if line.startswith("- ")}
    assert bullets == {one["reason"] for one in listed if one["kind"] == "documented"}
    assert {one["kind"] for one in listed} <= {"documented", "java", "unsupported", "wrong"}


def test_every_difference_from_spark_has_a_kind_that_the_list_explains() -> None:
    text = (ROOT / "tests/spark_suite/expected.toml").read_text()
    head = text.partition("[[left_out]]\nreason")[0]
    kinds = {one["kind"] for one in tomllib.loads(text)["difference"]}
    assert all(f'"{kind}"' in head for kind in kinds)
