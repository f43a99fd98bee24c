"""Upserts into random tables of every version, file format, partitioning and history, in both modes, compared with plain Python."""

import tempfile

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.table.test_whole_format import empty_catalog, start
from tests.table.upsert_model import Upserting

from icefloe.errors import InvalidInputError, InvalidPartitionSpecError, InvalidSchemaError

STEPS = ["upsert", "upsert", "upsert", "append", "delete", "schema", "spec", "order", "format", "upgrade"]


def run(data: st.DataObject, most: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Upserting(start(empty_catalog(folder), "db.t", data), data)
        steps = data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=most), label="steps")
        for step in ["spec", "append", "upsert", *steps]:
            model.fresh = ()
            before = (dict(model.defaults), dict(model.write_defaults))
            change = {
                "upsert": model.upsert,
                "append": model.append,
                "delete": model.delete,
                "schema": model.change_schema,
                "spec": model.change_spec,
                "order": model.change_order,
                "format": model.change_format,
                "upgrade": model.upgrade,
            }[step]
            try:
                change()
            except (InvalidSchemaError, InvalidPartitionSpecError, InvalidInputError):
                if step not in ("schema", "spec", "order"):
                    raise
                event(f"refused: {step}")
                model.defaults, model.write_defaults = before
            model.committed()
            model.same(model.table.schema(), model.rows, None, ("*",))
            model.check_lineage()
        model.check_everything()


QUICK = settings(max_examples=examples(25, least=8), suppress_health_check=list(HealthCheck))


@QUICK
@given(data=st.data())
def test_upserts_into_a_random_table_have_the_result_of_the_model(data: st.DataObject) -> None:
    run(data, 4)


@pytest.mark.slow
@settings(QUICK, max_examples=1000, phases=(Phase.generate, Phase.shrink))
@given(data=st.data())
def test_many_upserts_into_random_tables_have_the_result_of_the_model(data: st.DataObject) -> None:
    run(data, 8)
