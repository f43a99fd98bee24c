"""`PythonCallback` and `ConnectorObject`: Python objects that Java calls. Java may call only methods with the decorator `connector_method`.

A call consists of the name of a method and its arguments, which are checked here; `messages.py` has their types. The result is JSON, an object of Spark, or the
description of a connector object. Exceptions are not raised across Py4J, because they would lose their class: `spark_errors.py` converts an error to an
exception of Spark, or to a text from which Java creates an exception. The Java side is `bridge/java/PythonBridge.java` and, for Spark's connector interfaces,
`bridge/java/PythonProxy.java`.

Only a few callbacks are registered with Py4J (catalogs, the parser). Java addresses the connector objects that they return by numbers, which are sent together
with the method name: for registered objects Py4J would need one more call to describe each object, and another to release it.

Spark may call an object from several threads at once; Py4J runs each call in a separate thread. So the methods of objects which statements share (catalogs,
tables, scans, functions) change no state that other calls read. Builders may change their state, because Spark uses each builder in one thread.
"""

import json
import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter, signature
from itertools import count
from typing import Any, ClassVar, TypeVar, get_type_hints

import msgspec
from py4j.java_collections import JavaList
from py4j.java_gateway import JavaObject

from icefloe.errors import EngineError, Problem
from icefloe.spark.bridge.messages import ObjectDescription
from icefloe.spark.bridge.spark_errors import as_spark_error, refusal
from icefloe.spark.runtime.interrupts import interrupt_after_reply

LOG = logging.getLogger(__name__)
_REPLIES = threading.local()  # `last`: the last Java object that a callback of this thread returned
F = TypeVar("F", bound=Callable[..., Any])

_MARK = "_icefloe_connector_method"
# The optional part after a method name: the number of an object, and the numbers of released objects. Limited in length, so that parsing is fast.
_NUMBERS = re.compile(r"(?P<number>0|[1-9][0-9]{0,17})(?: (?P<released>[0-9]{1,18}(?:,[0-9]{1,18})*))?")
# The result for Java if a method returns its own object.
THIS = "this"


class MessageError(EngineError):
    """Raised for a message from the JVM whose method or object does not exist, or whose arguments do not fit the parameters of the method."""


@dataclass(frozen=True, slots=True)
class ConnectorMethod:
    """The description of a method that Java may call: its name, and the names and types of its parameters. It checks the arguments of calls."""

    name: str
    parameters: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, function: Callable[..., Any]) -> "ConnectorMethod":
        """Describe a method, given its name and its function. The first parameter of the function, the object, is left out."""
        hints = get_type_hints(function)
        _, *parameters = signature(function).parameters.values()
        return cls(name, {parameter.name: hints.get(parameter.name, Parameter.empty) for parameter in parameters})

    def arguments(self, receiver: str, message: Any) -> list[Any]:
        """Decode and check the arguments in a message, and return them in the order of the parameters.

        Args:
            receiver: The name of the class that has the method, for errors.
            message: JSON text of a single argument, of a list of all arguments, or of null if there are no arguments; or a list of JSON texts and Java objects.

        Raises:
            MessageError: The text is not JSON, the number of arguments is wrong, or an argument does not have the type of its parameter.
        """
        values = self._values(receiver, message)
        if len(values) != len(self.parameters):
            raise MessageError(
                f"{receiver}.{self.name} takes {len(self.parameters)} arguments ({', '.join(self.parameters) or 'none'}), and the message has {len(values)}"
            )
        for (name, kind), value in zip(self.parameters.items(), values, strict=True):
            self._check(receiver, name, kind, value)
        return values

    def _values(self, receiver: str, message: Any) -> list[Any]:
        try:
            if not isinstance(message, str):
                # Py4J detects the end of an iteration by a Java exception, which PySpark compares with every class of errors.
                members = [message.get(index) for index in range(message.size())] if isinstance(message, JavaList) else message
                return [json.loads(argument) if isinstance(argument, str) else argument for argument in members]
            value = json.loads(message)
        except (ValueError, TypeError, RecursionError) as error:
            raise MessageError(f"the message to {receiver}.{self.name} is not JSON: {type(error).__name__}: {error}") from error
        return value if isinstance(value, list) else [] if value is None else [value]

    def _check(self, receiver: str, name: str, kind: Any, value: Any) -> None:
        if kind is JavaObject:
            if value is None or isinstance(value, str | bool | int | float | dict):
                raise self._wrong(receiver, name, "", f"expected an object of Spark, got {type(value).__name__}")
            return
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            what, _, path = str(error).partition(" - at ")
            raise self._wrong(receiver, name, path.strip("`$"), what) from error
        except RecursionError as error:
            raise self._wrong(receiver, name, "", "nested too deeply") from error

    def _wrong(self, receiver: str, name: str, path: str, what: str) -> MessageError:
        field = f"{name}{path}"
        return MessageError(f"{receiver}.{self.name} received a wrong argument {field}", problems=[Problem(where=field, what=what)])


def connector_method(method: F) -> F:
    """Mark a method of a `PythonCallback` as one that Java may call; a decorator. The parameters must be annotated with types of `messages.py`."""
    setattr(method, _MARK, True)
    return method


class ReturnedObjects:
    """The connector objects that a callback has returned to Java, by number, until Java releases them."""

    def __init__(self) -> None:
        self._objects: dict[int, ConnectorObject] = {}
        self._numbers = count(1)

    def keep(self, returned: "ConnectorObject") -> int:
        """Keep an object, and return its unique number."""
        number = next(self._numbers)
        self._objects[number] = returned
        return number

    def get(self, number: int) -> "ConnectorObject":
        """Return the object with a number. Raises `MessageError` if there is no such object."""
        returned = self._objects.get(number)
        if returned is None:
            raise MessageError(f"there is no object {number}, or Java has released it")
        return returned

    def release(self, number: int) -> None:
        """Drop the object with a number, if there is one."""
        self._objects.pop(number, None)

    def __len__(self) -> int:
        return len(self._objects)


class PythonCallback:
    """Base class of Python objects that Java calls: `apply` gets the name of a method with the decorator `connector_method`, and its arguments."""

    last_error: BaseException | None = None  # the error of the last failed call of this object, or of an object that it owns
    owner: "PythonCallback | None" = None  # the object whose `last_error` is also set if a call of this object fails

    @property
    def returned(self) -> ReturnedObjects:
        """The connector objects that methods of this object returned to Java, or methods of objects that it returned."""
        # Two threads may make the first call. `setdefault` is atomic, while `cached_property` is not since Python 3.12: with two registries, two objects could
        # have one number.
        objects: ReturnedObjects | None = self.__dict__.get("_returned")
        return self.__dict__.setdefault("_returned", ReturnedObjects()) if objects is None else objects

    def apply(self, method: str, message: Any) -> Any:
        """Call a method with the decorator `connector_method`.

        Args:
            method: The name of the method. For an object that this callback has returned, a space and the object's number follow. The numbers of objects that
                Java has released may be appended: `build_scan 17 12,15`.
            message: The arguments of the method, as `ConnectorMethod.arguments` takes them.

        Returns:
            A Java object unchanged, any other result as JSON text. For a connector object: `@`, its number, a space, and its description as JSON, unless Java
                has the description already; for a tuple of objects, one line for each. For an error: Spark's exception, or the text from `refusal`.
        """
        reply = self._reply(method, message)
        # Py4J sends the id of a Java object, and the JVM drops an object that Python has released. So the reply must stay alive until the JVM has read it. At
        # the next call of this thread the JVM has certainly read it.
        _REPLIES.last = reply if isinstance(reply, JavaObject) else None
        return reply

    def _reply(self, address: str, message: Any) -> Any:
        arguments: list[Any] = []
        receiver = self
        try:
            method_name, receiver = self._object_at(address)
            kind: Any = type(receiver)
            method = connector_methods(kind).get(method_name)
            if method is None:
                raise MessageError(f"{kind.__name__} has no connector method {method_name!r}")
            arguments = method.arguments(kind.__name__, message)
            result = getattr(receiver, method_name)(*arguments)
            return self._as_text(result)
        except BaseException as error:
            receiver._keep_error(error)
            LOG.debug("%s failed", address, exc_info=True)
            exception = as_spark_error(error, arguments[0] if arguments else None)
            if isinstance(error, KeyboardInterrupt):
                interrupt_after_reply()
            return refusal(error) if exception is None else exception

    def _object_at(self, address: str) -> "tuple[str, PythonCallback]":
        """Parse the first argument of `apply`: release the listed objects, and return the method's name and the object to call. Raises `MessageError`."""
        method_name, *rest = address.split(" ")
        if not rest:
            return method_name, self
        matched = _NUMBERS.fullmatch(" ".join(rest))
        if matched is None:
            raise MessageError(f"a call of {type(self).__name__} has no number of an object: {address[:100]!r}")
        for number in filter(None, (matched["released"] or "").split(",")):
            self.returned.release(int(number))
        return method_name, self if int(matched["number"]) == 0 else self.returned.get(int(matched["number"]))

    def _as_text(self, result: Any) -> Any:
        """Convert the result of a method to the result of `apply`; connector objects are added to `returned`."""
        if isinstance(result, JavaObject):
            return result
        if isinstance(result, tuple):
            return "\n".join(map(self._as_text, result))
        if not isinstance(result, ConnectorObject):
            return json.dumps(result)
        description = "" if result.is_known else f" {json.dumps(result.describe())}"
        return f"@{self.returned.keep(result)}{description}"

    def _keep_error(self, error: BaseException) -> None:
        self.last_error = error
        if self.owner is not None:
            self.owner._keep_error(error)

    class Java:
        """The Java interfaces of the object, declared as Py4J requires."""

        implements: ClassVar[list[str]] = ["java.util.function.BiFunction"]


class ConnectorObject(PythonCallback):
    """Base class of Python objects that implement interfaces of Spark. The JVM has a proxy of each, with the `interfaces`, which calls the Python methods.

    A method has the name of Spark's method in Python's spelling, and the same number of parameters: `push_predicates` for `pushPredicates`. The Java side,
    `bridge/java/PythonProxy.java`, converts the result to the return type of Spark's method: schemas are JSON, columns are names, and a number is the index of
    an object among the arguments of the last call. It caches the result of a method without parameters until a method with arguments is called, unless the
    result is a boolean or nothing.
    """

    # Names within `org.apache.spark.sql.connector`, subclasses before their bases. Interfaces that do not exist in a version of Spark are skipped.
    interfaces: ClassVar[tuple[str, ...]] = ()
    is_known = False  # whether Java already has the description

    def identity(self) -> str | None:
        """Return a text by which Java compares objects: objects with the same text are equal. With None, the object is only equal to itself."""
        return None

    def state(self) -> str | None:
        """Return a text that changes with the description and the scans of the object, so that Java can cache these for it; None if they must not be cached."""
        return None

    def constants(self) -> Mapping[str, Any]:
        """Return results of Spark's methods that never change, by method name. So Java needs no call for methods that Spark calls dozens of times."""
        return {}

    def describe(self) -> ObjectDescription:
        """Return the description from which Java creates the proxy of this object."""
        kind: Any = type(self)
        return {
            "interfaces": self.interfaces,
            "identity": self.identity(),
            "state": self.state(),
            "constants": self.constants(),
            "methods": java_signatures(kind),
        }


@cache
def connector_methods(kind: Any) -> Mapping[str, ConnectorMethod]:
    """Return the descriptions of the methods of a class that have the decorator `connector_method`, by name."""
    marked = (name for name in dir(kind) if getattr(getattr(kind, name), _MARK, False))
    return {name: ConnectorMethod.of(name, getattr(kind, name)) for name in marked}


@cache
def java_signatures(kind: Any) -> Mapping[str, str]:
    """Return the names of the methods of a class that Java may call, by the Java method's name and number of parameters, such as `pushPredicates/1`."""
    return {
        re.sub("_(.)", lambda match: match[1].upper(), name) + f"/{len(method.parameters)}": name
        for name, method in connector_methods(kind).items()
    }
