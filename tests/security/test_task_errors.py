"""Errors of Spark tasks are passed as signed data: no text is decoded unless a task of the same job signed it, and a signed error arrives whole."""

import base64
import hmac
import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.security.forged_errors import pickled_attack

from icefloe import errors
from icefloe.errors import (
    FormatError,
    IcefloeError,
    InvalidInputError,
    ManifestFormatError,
    NoSuchFileError,
    Problem,
    StoragePermissionError,
)
from icefloe.spark.jobs.spark_jobs import engine_error
from icefloe.spark.jobs.task_errors import MOST_PROBLEMS, MOST_TEXT, TaskError, TaskErrors, error_in, key_of_this_process, seal

KEY, JOB = b"k" * 32, "the job"
KINDS = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, IcefloeError)), key=lambda kind: kind.__name__
)
TEXTS = st.text(max_size=60) | st.sampled_from(["icefloe-error[", "icefloe-error[AAAA]", "]", "\ud800", "\x00", "\n"])


def fields_of(error: IcefloeError) -> tuple[object, ...]:
    return type(error), error.message, error.table, error.path, error.snapshot_id, error.problems, error.next_step


def signed(fields: object, key: bytes = KEY) -> str:
    """Return the signed text of a task with these fields instead of those of an error."""
    payload = base64.b64encode(fields if isinstance(fields, bytes) else json.dumps(fields).encode()).decode()
    return f"icefloe-error[{payload}.{hmac.new(key, payload.encode(), sha256).hexdigest()}]"


def test_no_two_error_classes_have_the_same_code() -> None:
    assert len({kind.code for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(20))
@given(
    message=TEXTS,
    table=st.none() | TEXTS,
    path=st.none() | TEXTS,
    snapshot_id=st.none() | st.integers(-(2**63), 2**63 - 1),
    problems=st.lists(st.builds(Problem, where=TEXTS, what=TEXTS), max_size=3),
    next_step=st.none() | TEXTS,
    around=st.tuples(TEXTS, TEXTS),
)
def test_an_error_of_any_kind_arrives_whole(
    kind: type[IcefloeError],
    message: str,
    table: str | None,
    path: str | None,
    snapshot_id: int | None,
    problems: list[Problem],
    next_step: str | None,
    around: tuple[str, str],
) -> None:
    error = kind(message, table=table, path=path, snapshot_id=snapshot_id, problems=problems, next_step=next_step)
    decoded = error_in(around[0] + seal(error, JOB, KEY) + around[1], JOB, KEY)
    assert decoded is not None
    assert fields_of(decoded) == fields_of(error)


@given(st.lists(TEXTS | st.sampled_from([seal(FormatError("old"), "other", KEY), seal(FormatError("x"), JOB, b"other")]), max_size=8))
def test_no_text_decodes_that_was_not_signed_for_this_job_with_this_key(parts: list[str]) -> None:
    assert error_in("".join(parts), JOB, KEY) is None


@given(st.data())
def test_a_signed_error_cannot_be_altered(data: st.DataObject) -> None:
    error = NoSuchFileError("gone", path="/a", next_step="look")
    text = list(seal(error, JOB, KEY))
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.characters())
    decoded = error_in("".join(text), JOB, KEY)
    assert decoded is None or fields_of(decoded) == fields_of(error)


def test_the_error_of_an_earlier_job_is_not_taken_for_one_of_this_job() -> None:
    replayed = seal(NoSuchFileError("gone"), "an earlier job", KEY)
    assert error_in(replayed, JOB, KEY) is None
    genuine = seal(StoragePermissionError(f"cannot read {replayed}", path=replayed), JOB, KEY)
    decoded = error_in(f"{replayed}\n{genuine}", JOB, KEY)
    assert isinstance(decoded, StoragePermissionError)
    assert decoded.path == replayed


@pytest.mark.parametrize(
    "fields",
    [
        b"",
        b"no JSON",
        b"\xff\xfe",
        b"[" * 100_000,
        [],
        {},
        None,
        {"job": JOB},
        {"code": "no-such-kind"},
        {"message": 5},
        {"path": ["a"]},
        {"snapshot_id": "1"},
        {"problems": [["a"]]},
        {"problems": [["a", "b", "c"]]},
        {"more": 1},
    ],
)
def test_signed_fields_of_another_form_are_no_error_and_raise_none(fields: object) -> None:
    whole = {
        "job": JOB,
        "code": "engine",
        "message": "m",
        "table": None,
        "path": None,
        "snapshot_id": None,
        "problems": [],
        "next_step": None,
    }
    assert error_in(signed(whole), JOB, KEY) is not None
    changed = {**whole, **fields} if isinstance(fields, dict) and fields.keys() != {"job"} and fields else fields
    assert error_in(signed(changed), JOB, KEY) is None


def test_codes_name_no_other_constructor() -> None:
    whole = {"job": JOB, "message": "m", "table": None, "path": None, "snapshot_id": None, "problems": [], "next_step": None}
    for code in ("IcefloeError", "Problem", "__builtins__", "errors.IcefloeError", "os.system", ""):
        assert error_in(signed({**whole, "code": code}), JOB, KEY) is None


def test_a_long_error_is_cut_with_the_amount_that_was_cut() -> None:
    error = ManifestFormatError("m" * 10**6, path="p" * 10**6, problems=[Problem(where="w" * 10**5, what="x" * 10**5)] * 10_000)
    text = seal(error, JOB, KEY)
    assert len(text) < 1_000_000
    decoded = error_in(text, JOB, KEY)
    assert decoded is not None
    assert decoded.message == "m" * MOST_TEXT + f"... ({10**6 - MOST_TEXT} characters more)"
    assert len(decoded.problems) == MOST_PROBLEMS + 1
    assert str(decoded.problems[-1]) == f"and {10_000 - MOST_PROBLEMS} more"


def test_a_text_of_many_forgeries_takes_time_in_proportion() -> None:
    forged = f"icefloe-error[{'A' * 1000}.{'0' * 64}]icefloe-error[icefloe-error[" + "A" * 1000
    assert error_in(forged * 5000, JOB, KEY) is None


def test_an_error_outside_a_job_of_icefloe_is_raised_as_it_is() -> None:
    with pytest.raises(InvalidInputError) as caught, TaskErrors(KEY).carry():
        raise InvalidInputError("mine")
    assert str(caught.value) == "mine"


def test_a_sealed_error_has_its_message_in_plain_words_and_never_the_key() -> None:
    carried = TaskErrors(job=JOB)
    with pytest.raises(TaskError, match="the folder is locked") as caught, carried.carry():
        raise StoragePermissionError("the folder is locked")
    key = key_of_this_process()
    for shown in (str(caught.value), repr(carried), repr(caught.value)):
        assert not any(form in shown for form in (key.hex(), base64.b64encode(key).decode(), repr(key)))
    decoded = error_in(str(caught.value), JOB, key_of_this_process())
    assert isinstance(decoded, StoragePermissionError)
    assert "icefloe-error" not in str(decoded)


def test_a_pickle_in_a_message_is_not_loaded(tmp_path: Path) -> None:
    failure = ValueError(f"cannot cast {pickled_attack(tmp_path / 'attacked')} to bigint")
    assert error_in(str(failure), JOB, key_of_this_process()) is None
    assert "cannot cast  to bigint" in str(engine_error(failure))  # packed text is never shown
    assert not (tmp_path / "attacked").exists()
