"""Whatever a message to a Python object of a catalog says, it is answered or refused with a text; it calls nothing but the marked methods."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from py4j.java_gateway import JavaObject

from icefloe.spark.bridge.callback import ConnectorObject, PythonCallback, connector_method

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


class Listening(ConnectorObject):
    """Answers one question, and has a method that is none."""

    def __init__(self) -> None:
        self.called = 0

    @connector_method
    def echo(self, value: Any) -> Any:
        """The value again."""
        return value

    def secret(self, *_: Any) -> str:
        """What no message may call."""
        self.called += 1
        return "secret"


def is_refusal(found: Any) -> bool:
    """Return True for the text of an error, or one of Spark's errors, which takes its place where a JVM runs in this process."""
    return found.startswith("!") if isinstance(found, str) else isinstance(found, JavaObject)


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
    assert listening.called == 0
    if question not in ("echo", "describe"):
        assert is_refusal(found)
    elif not is_refusal(found):
        json.loads(found)


def test_a_message_nested_deeper_than_python_goes_is_refused() -> None:
    assert is_refusal(Listening().apply("echo", "[" * 100_000))


def test_an_object_without_questions_refuses_all() -> None:
    assert is_refusal(PythonCallback().apply("apply", "null"))
