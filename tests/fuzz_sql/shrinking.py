"""Smaller cases that show the same difference: fewer steps, rows and columns, shorter queries, fewer settings."""

import time
from collections.abc import Iterator
from dataclasses import replace

from tests.fuzz_sql.histories import DEFAULT_SETTINGS, Beginning
from tests.fuzz_sql.overwrites import OverwritePartition, OverwritePartitions, ReplaceWhere
from tests.fuzz_sql.schemas import Struct, edited, walk
from tests.fuzz_sql.steps import Insert, Merge, Step
from tests.fuzz_sql.trials import Case, Difference, Lake, run_case


def shrunk(lake: Lake, difference: Difference, *, seconds: float = 240) -> Difference:
    """Return the smallest difference of the same kind that is found in some time."""
    end = time.monotonic() + seconds
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for case in _smaller(difference.case):
            found = run_case(lake, case)
            if found is not None and found.kind == difference.kind:
                difference, progress = found, True
                break
            if time.monotonic() > end:
                break
    return difference


def _smaller(case: Case) -> Iterator[Case]:
    """Yield cases with one part less, the largest parts first."""
    yield from (replace(case, steps=steps) for steps in _fewer_steps(case.steps, keep_last=case.query is None))
    if case.query is not None and not case.reader:
        if case.query.through:
            yield replace(case, query=replace(case.query, through=""))
        if case.query.where:
            yield replace(case, query=replace(case.query, where=""))
        if len(case.query.outputs) > 1:
            for place in range(len(case.query.outputs)):
                yield replace(case, query=replace(case.query, outputs=_without(case.query.outputs, place)))
    yield from (replace(case, beginning=beginning) for beginning in _simpler_beginnings(case.beginning))
    for place, step in enumerate(case.steps):
        for smaller in _simpler_steps(step):
            yield replace(case, steps=(*case.steps[:place], smaller, *case.steps[place + 1 :]))


def _without(items: tuple, place: int) -> tuple:  # type: ignore[type-arg]
    return items[:place] + items[place + 1 :]


def _fewer_steps(steps: tuple[Step, ...], *, keep_last: bool) -> Iterator[tuple[Step, ...]]:
    count = len(steps) - keep_last
    size = count // 2
    while size > 1:
        for start in range(0, count, size):
            yield steps[:start] + steps[min(start + size, count) :]
        size //= 2
    for place in reversed(range(count)):
        yield _without(steps, place)


def _simpler_steps(step: Step) -> Iterator[Step]:
    match step:
        case Insert(rows) | Merge(rows) | OverwritePartitions(rows) | OverwritePartition(rows) | ReplaceWhere(rows) if len(rows) > 1:
            yield replace(step, rows=rows[: len(rows) // 2])
            yield replace(step, rows=rows[len(rows) // 2 :])
    match step:
        case Insert(how="name" | "columns"):
            yield replace(step, how="position")
        case Merge(matched=matched, by_source=by_source, insert_condition=condition):
            for place in range(len(matched)):
                yield replace(step, matched=_without(matched, place), inserts=step.inserts or len(matched) == 1)
            if by_source:
                yield replace(step, by_source=None)
            if condition:
                yield replace(step, insert_condition="")


def _simpler_beginnings(beginning: Beginning) -> Iterator[Beginning]:
    if beginning.settings != DEFAULT_SETTINGS:
        yield replace(beginning, settings=DEFAULT_SETTINGS)
        for name, value in DEFAULT_SETTINGS.items():
            if beginning.settings.get(name) != value:
                yield replace(beginning, settings={**beginning.settings, name: value})
    yield from (replace(beginning, schema=schema) for schema in _smaller_schemas(beginning.schema))
    for place in range(len(beginning.partition_fields)):
        yield replace(beginning, partition_fields=_without(beginning.partition_fields, place))
    extra = {name: value for name, value in beginning.properties.items() if name == "format-version"}
    if extra != beginning.properties:
        yield replace(beginning, properties=extra)
        for name in beginning.properties:
            if name != "format-version":
                yield replace(beginning, properties={one: value for one, value in beginning.properties.items() if one != name})


def _smaller_schemas(schema: Struct) -> Iterator[Struct]:
    numbers = [field.number for _, field, _, _ in walk(schema) if field is not None]
    for number in numbers:

        def drop(found: Struct, number: int = number) -> Struct:
            kept = tuple(field for field in found.fields if field.number != number)
            return Struct(found.number, kept or found.fields)

        smaller = edited(schema, number, drop)
        if smaller != schema and isinstance(smaller, Struct):
            yield smaller
