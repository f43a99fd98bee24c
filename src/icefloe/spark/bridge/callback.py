"""`PythonCallback` and `ConnectorObject`: Python objects whose marked methods Java calls; and the one place that checks the messages of these calls.

A call is the name of a method and its arguments; `messages.py` has the types of the arguments. The result is returned as JSON, as an object of
Spark, or as the description of a connector object. Nothing is raised across Py4J, where an exception would lose its class: `spark_errors.py` turns an error
into an exception of Spark or a text. The Java side is `bridge/java/PythonBridge.java` and, for objects of Spark's connector, `bridge/java/PythonProxy.java`.

Java calls a few callbacks that are registered with Py4J (catalogs, the parser), and by numbers the connector objects that these return: Py4J itself would need
one more call to describe each object, and another one to release it. A number travels with the name of the method.

Spark may call one object from several threads at once; Py4J runs each call in a thread of its own. A method that is called on objects which statements share
(catalogs, tables, scans, functions) therefore changes no state that another call reads. Builders change their state: Spark uses each in one thread.
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
_REPLIES = threading.local()  # `last`: the Java object that a callback of the thread returned last
F = TypeVar("F", bound=Callable[..., Any])

_MARK = "_icefloe_connector_method"
# What may follow the name of a method: the number of an object, and the numbers of released ones. No number is longer, so that each is read fast.
_NUMBERS = re.compile(r"(?P<number>0|[1-9][0-9]{0,17})(?: (?P<released>[0-9]{1,18}(?:,[0-9]{1,18})*))?")
# The result of a method that returns the object itself.
THIS = "this"


class MessageError(EngineError):
    """A message from the JVM that does not fit the method that it names."""


@dataclass(frozen=True, slots=True)
class ConnectorMethod:
    """A method that Java may call, with the names and types of its parameters."""

    name: str
    parameters: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, function: Callable[..., Any]) -> "ConnectorMethod":
        """Return the method of this name, given its function, whose first parameter is the object."""
        hints = get_type_hints(function)
        _, *parameters = signature(function).parameters.values()
        return cls(name, {parameter.name: hints.get(parameter.name, Parameter.empty) for parameter in parameters})

    def arguments(self, receiver: str, message: Any) -> list[Any]:
        """Return the arguments of a message, checked.

        Args:
            receiver: The name of the class that has the method, for errors.
            message: JSON text of one argument, of a list of all, or of null where there is none; or a list of JSON texts and Java objects.

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
                # Py4J learns of the end of an iteration by a Java exception, which PySpark compares with every class of errors.
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
    """Mark a method that Java may call by its name; its parameters are annotated with the types of `messages.py`."""
    setattr(method, _MARK, True)
    return method


class ReturnedObjects:
    """The connector objects that a callback has returned to Java, by their numbers, until Java has released them."""

    def __init__(self) -> None:
        self._objects: dict[int, ConnectorObject] = {}
        self._numbers = count(1)

    def keep(self, returned: "ConnectorObject") -> int:
        """Keep an object, and return its number, which no other one gets."""
        number = next(self._numbers)
        self._objects[number] = returned
        return number

    def get(self, number: int) -> "ConnectorObject":
        """Return the object of a number. Raises `MessageError` if there is none."""
        returned = self._objects.get(number)
        if returned is None:
            raise MessageError(f"there is no object {number}, or Java has released it")
        return returned

    def release(self, number: int) -> None:
        """Drop the object of a number, if there is one."""
        self._objects.pop(number, None)

    def __len__(self) -> int:
        return len(self._objects)


class PythonCallback:
    """A Python object that Java calls through one function of two arguments: the name of a marked method, and its arguments."""

    last_error: BaseException | None = None  # of the last call that failed, of this object or of one that it owns
    owner: "PythonCallback | None" = None  # the object that also keeps the errors of this one

    @property
    def returned(self) -> ReturnedObjects:
        """The connector objects that this callback and those objects have returned to Java."""
        # Two threads may call first: `setdefault` is atomic, which `cached_property` is not since Python 3.12. With two of them, two objects had one number.
        objects: ReturnedObjects | None = self.__dict__.get("_returned")
        return self.__dict__.setdefault("_returned", ReturnedObjects()) if objects is None else objects

    def apply(self, method: str, message: Any) -> Any:
        """Call a marked method.

        Args:
            method: The name of the method; for a method of an object that this callback has returned, with a space and the object's number behind it. The
                numbers of objects that Java has released may follow: `build_scan 17 12,15`.
            message: Its arguments, as `ConnectorMethod.arguments` takes them.

        Returns:
            JSON text of the result, or the result where it is a Java object. For a connector object: `@`, its number, a space and its description as JSON,
            which is missing if Java has it; of several objects, which a method returns as a tuple, a line each. For an error: the exception of Spark for it,
            or the text that `refusal` returns.
        """
        reply = self._reply(method, message)
        # Py4J sends the id of a Java object, and the JVM drops an object that Python has released: it could not find the reply. The next call of this thread
        # comes when it has read this one.
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
        """Return the name of the method and the object that an address names, after the release of objects. Raises `MessageError`."""
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
        """Return a result as JSON, unless it is a Java object; connector objects are kept, and the number and description of each are returned, in lines."""
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
        """Java interfaces of the object, as Py4J reads them."""

        implements: ClassVar[list[str]] = ["java.util.function.BiFunction"]


class ConnectorObject(PythonCallback):
    """A Python object behind a Java object that has the `interfaces` and passes their calls on to the marked methods.

    A method has the name of Spark's method, in Python's spelling, and as many parameters: `push_predicates` for `pushPredicates`. The Java side,
    `bridge/java/PythonProxy.java`, converts the result to the type that Spark's method returns: schemas are JSON, columns are names, a number is the index of
    an object among those that the last call passed. It keeps the result of a method without parameters until a method is called with arguments, unless the
    result is a boolean or nothing.
    """

    # Names within `org.apache.spark.sql.connector`, subclasses before their bases. Interfaces that a version of Spark lacks are left out.
    interfaces: ClassVar[tuple[str, ...]] = ()
    is_known = False  # whether Java has the description already

    def identity(self) -> str | None:
        """Return a text that is the same for equal objects; None where an object equals only itself."""
        return None

    def state(self) -> str | None:
        """Return a text on which the description and the replies to queries of scans depend alone, so that Java keeps them; None where there is none."""
        return None

    def constants(self) -> Mapping[str, Any]:
        """Return the results of methods that never change, by the names of Spark's methods, which Spark may call dozens of times."""
        return {}

    def describe(self) -> ObjectDescription:
        """Return the description that Java creates the proxy of this object from."""
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
    """Return the methods of a class that Java may call, by their names."""
    marked = (name for name in dir(kind) if getattr(getattr(kind, name), _MARK, False))
    return {name: ConnectorMethod.of(name, getattr(kind, name)) for name in marked}


@cache
def java_signatures(kind: Any) -> Mapping[str, str]:
    """Return the names of a class's methods by the name and the number of parameters of the Java methods, such as `pushPredicates/1`."""
    return {
        re.sub("_(.)", lambda match: match[1].upper(), name) + f"/{len(method.parameters)}": name
        for name, method in connector_methods(kind).items()
    }
