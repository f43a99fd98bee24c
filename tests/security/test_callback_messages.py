"""Any message to a Python object of a catalog gets a result or a refusal with a text; it can call nothing but connector methods."""

import importlib
import json
import pkgutil
from collections.abc import Iterator
from threading import Barrier, Thread
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.java_gateway import JavaObject

import icefloe.spark
from icefloe.spark.bridge.callback import ConnectorObject, MessageError, PythonCallback, connector_method, connector_methods
from icefloe.spark.bridge.messages import Expression, TableToLoad

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


class Listening(ConnectorObject):
    """An object with connector methods, and a method that is not one of them."""

    def __init__(self) -> None:
        self.called = 0

    @connector_method
    def echo(self, value: Any) -> Any:
        """Return the value again."""
        return value

    @connector_method
    def load_table(self, message: TableToLoad) -> Any:
        """Return the message."""
        return message

    @connector_method
    def push_predicates(self, predicates: list[Expression]) -> Any:
        """Return the predicates."""
        return predicates

    @connector_method
    def run(self, session: JavaObject, name: str) -> Any:
        """Return both."""
        return [str(session), name]

    def secret(self, *_: Any) -> str:
        """Do what no message may call."""
        self.called += 1
        return "secret"


def is_refusal(reply: Any) -> bool:
    """Return True for the text of an error, or one of Spark's errors, which takes its place where a JVM runs in this process."""
    return reply.startswith("!") if isinstance(reply, str) else isinstance(reply, JavaObject)


METHODS = st.text() | st.sampled_from(
    [
        *(
            "echo",
            "load_table",
            "push_predicates",
            "run",
            "secret",
            "describe",
            "returned",
            "echo 1",
            "secret 0",
            "identity",
            "__init__",
            "__class__",
            "_keep_error",
        ),
        *("constants", "last_error", "Java", "", "returned", "echo 0", "echo 1", "secret 0"),
    ]
)


@given(
    METHODS,
    st.text() | st.binary() | st.none() | st.integers() | JSON.map(json.dumps) | st.lists(st.text()) | st.lists(JSON.map(json.dumps)),
)
def test_any_message_gets_a_text_and_calls_no_other_method(method_name: str, message: Any) -> None:
    listening = Listening()
    reply = listening.apply(method_name, message)
    assert listening.called == 0
    if method_name.removesuffix(" 0") not in connector_methods(Listening):
        assert is_refusal(reply)
    elif not is_refusal(reply):
        json.loads(reply)


def test_a_message_nested_deeper_than_pythons_limit_is_refused() -> None:
    assert is_refusal(Listening().apply("echo", "[" * 100_000))
    nested = '{"kind": "Not", "children": [' * 30_000 + "]}" * 30_000
    assert is_refusal(Listening().apply("push_predicates", f"[[{nested}]]"))


def test_an_object_without_connector_methods_refuses_every_message() -> None:
    assert is_refusal(PythonCallback().apply("apply", "null"))


@pytest.mark.parametrize(
    ("method_name", "message", "error"),
    [
        ("secret", "null", "Listening has no connector method 'secret'"),
        ("load_table", "null", r"Listening\.load_table takes 1 arguments \(message\), and the message has 0"),
        ("load_table", "[1, 2]", r"Listening\.load_table takes 1 arguments \(message\), and the message has 2"),
        ("load_table", "{", r"the message to Listening\.load_table is not JSON"),
        ("load_table", {"table": "t"}, r"Listening\.load_table received a wrong argument message\.table\n.*Expected `array`, got `str`"),
        ("load_table", {"version": "1"}, r"received a wrong argument message\n.*missing required field `table`"),
        ("load_table", {"table": ["t"], "timestamp": "now"}, r"wrong argument message\.timestamp\n.*Expected `int`"),
        (
            "push_predicates",
            [[{"kind": "call", "children": [{"kind": 1}]}]],
            r"Listening\.push_predicates received a wrong argument predicates\[0\]\.children\[0\]\.kind\n.*Expected `str`, got `int`",
        ),
        ("run", ["{}", '"x"'], r"Listening\.run received a wrong argument session\n.*expected an object of Spark, got dict"),
    ],
)
def test_a_message_that_does_not_fit_is_refused_with_class_method_and_field(method_name: str, message: Any, error: str) -> None:
    listening = Listening()
    is_raw = isinstance(message, str) or method_name == "run"
    reply = listening.apply(method_name, message if is_raw else json.dumps(message))
    assert is_refusal(reply)
    assert isinstance(listening.last_error, MessageError)
    with pytest.raises(MessageError, match=error):
        raise listening.last_error


class Returning(PythonCallback):
    """A callback that returns objects, which Java calls by their numbers."""

    @connector_method
    def listening(self) -> Any:
        """Return an object."""
        return Listening()

    @connector_method
    def undescribed(self) -> Any:
        """Return an object whose description fails."""
        returned = Listening()
        returned.identity = lambda: 1 / 0  # type: ignore[assignment,method-assign,return-value]
        return returned


def test_an_object_is_called_by_its_number_until_java_has_released_it() -> None:
    callback = Returning()
    replies = [callback.apply("listening", "null") for _ in range(2)]
    (number, description), (other, _) = (reply.removeprefix("@").split(" ", 1) for reply in replies)
    assert json.loads(description)["methods"]["echo/1"] == "echo"
    assert callback.apply(f"echo {number}", "[5]") == "5"
    assert is_refusal(callback.apply(f"secret {number}", "null"))
    assert is_refusal(callback.apply(f"returned {number}", "null"))
    assert callback.apply(f"echo {other} {number}", "[6]") == "6"
    assert is_refusal(callback.apply(f"echo {number}", "[5]"))
    assert len(callback.returned) == 1


def test_an_object_whose_description_fails_is_not_kept() -> None:
    callback = Returning()
    assert is_refusal(callback.apply("undescribed", "null"))
    assert len(callback.returned) == 0


@pytest.mark.parametrize(
    "address",
    [
        "echo 7",
        "echo -1",
        "echo 1 x",
        "echo 1 2 3",
        "echo  1",
        f"echo {'9' * 19}",
        "echo \n1",
        "echo 0 1,,2",
        "echo \u0663",
        "echo 1e3",
        "echo 1.",
    ],
)
def test_a_call_of_an_object_that_was_not_returned_is_refused(address: str) -> None:
    listening = Listening()
    assert is_refusal(listening.apply(address, "[5]"))
    assert isinstance(listening.last_error, MessageError)
    assert listening.apply("echo 0 12,13", "[5]") == "5"


def callbacks(kind: Any) -> Iterator[Any]:
    """Yield the classes of Icefloe that Java calls."""
    for module in pkgutil.walk_packages(icefloe.spark.__path__, "icefloe.spark."):
        importlib.import_module(module.name)
    for subclass in kind.__subclasses__():
        if subclass.__module__.startswith("icefloe."):
            yield subclass
        yield from callbacks(subclass)


def test_every_parameter_of_every_method_that_java_calls_has_a_type_that_is_checked() -> None:
    unchecked = []
    for kind in set(callbacks(PythonCallback)):
        for name, method in connector_methods(kind).items():
            for parameter, annotation in method.parameters.items():
                if annotation is not JavaObject and msgspec.json.schema(annotation) == {}:
                    unchecked.append(f"{kind.__name__}.{name}({parameter})")
    assert unchecked == []


def test_threads_that_first_call_an_object_at_once_share_its_returned_objects() -> None:
    first, second = Barrier(2), []

    class Slow(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            found = super().get(key, default)
            first.wait(5)
            return found

    callback = PythonCallback()
    callback.__dict__ = Slow()
    threads = [Thread(target=lambda: second.append(callback.returned)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert second[0] is second[1]
