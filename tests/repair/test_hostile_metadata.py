"""Metadata files with any values at any place: a plan is made or refused with an error of Icefloe, and what is applied can be read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.repair.broken_table import BrokenTable
from tests.repetitions import examples

from icefloe.checks.repair_kinds import REPAIRS
from icefloe.errors import IcefloeError

MakeTable = Callable[[str, int], BrokenTable]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
    st.just([[1]]),
    st.just({"snapshot-id": [1]}),
    st.just("/etc/passwd"),
    st.just("../../x"),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return every place of a JSON document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inner for place in places(one, (*path, key)))]


def put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), VALUES), min_size=1, max_size=3),
    named=st.sampled_from((None, *(kind.id for kind in REPAIRS))),
)
@example(changes=[(0.0, {"snapshot-id": [1]})], named="correct-metadata")
def test_any_value_at_any_place_is_planned_for_or_refused(sound: MakeTable, changes: list[tuple[float, Any]], named: str | None) -> None:
    broken = sound("of_files", 3)
    path = Path(broken.location())
    document = json.loads(path.read_text())
    for where, value in changes:
        every = places(document)[1:]
        put(document, every[int(len(every) * where)], json.loads(json.dumps(value)))
    path.write_text(json.dumps(document))
    files = broken.files()
    try:
        planned = broken.plan(*([named] if named else []))
        str(planned)
        planned.to_json()
        result = planned.apply()
    except IcefloeError:
        return
    assert files.items() <= broken.files().items()
    if result.repairs and result.metadata_location is not None:
        assert broken.table.metadata.table_uuid
