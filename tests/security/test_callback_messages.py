"""Whatever a message to a Python object of a catalog says, it is answered or refused with a text; it calls nothing but the marked methods."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from icefloe.spark.sql.answers import Answers, ObjectAnswers, answer

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


class Listening(ObjectAnswers):
    """Answers one question, and has a method that is none."""

    def __init__(self) -> None:
        self.called = 0

    @answer
    def echo(self, value: Any) -> Any:
        """The value again."""
        return value

    def secret(self, *_: Any) -> str:
        """What no message may call."""
        self.called += 1
        return "secret"


QUESTIONS = st.text() | st.sampled_from(
    ["echo", "secret", "describe", "identity", "__init__", "__class__", "_has_failed", "says", "failed", "Java", ""]
)


@given(
    QUESTIONS,
    st.text() | st.binary() | st.none() | st.integers() | JSON.map(json.dumps) | st.lists(st.text()) | st.lists(JSON.map(json.dumps)),
)
def test_any_message_is_answered_with_text_and_calls_no_other_method(question: str, argument: Any) -> None:
    listening = Listening()
    found = listening.apply(question, argument)
    assert isinstance(found, str)
    assert listening.called == 0
    if question not in ("echo", "describe"):
        assert found.startswith("!")
    elif not found.startswith("!"):
        json.loads(found)


def test_a_message_nested_deeper_than_python_goes_is_refused() -> None:
    assert Listening().apply("echo", "[" * 100_000).startswith("!")


def test_an_object_without_questions_refuses_all() -> None:
    assert Answers().apply("apply", "null").startswith("!")
