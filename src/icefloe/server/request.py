"""`Call`: one request as an operation receives it, with names, parameters, headers and body decoded and checked; and `Answer`: the response of an operation.

Names in a path are percent-encoded, and the levels of a namespace are joined by the unit separator. Levels are split before they are decoded, so that an
encoded slash becomes part of a name, which the rules of names then refuse. Spec: REST catalog, parameters.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

import msgspec

from icefloe.server.access_control import Access
from icefloe.server.error_response import bad_request
from icefloe.spec.identifier import Identifier, to_identifier, to_table_identifier
from icefloe.spec.schema.json_shape import Key, object_problems

# The separator of the levels of a namespace in a path or parameter. Spec: REST catalog, namespace.
SEPARATOR = "\x1f"
_WEIGHT = re.compile(r"[01](\.[0-9]{0,3})?")
# The most items of a page, and the number of items if the client requests no size.
MAX_PAGE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response of an operation. `content` or `body` is its body; both are None if there is none.

    Attributes:
        status: The status code.
        content: The body as a JSON value.
        body: The body as bytes: of JSON that is encoded already, or of the type that the header Content-Type names.
        headers: The headers.
        has_credentials: Whether the body contains credentials, which must not be stored anywhere.
    """

    status: int = 200
    content: Any = None
    body: bytes | memoryview | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    has_credentials: bool = False

    def encode(self) -> "Answer":
        """Return the response with its JSON value encoded to bytes. The value would take up to a hundred times the memory of the bytes."""
        return self if self.body is not None else replace(self, content=None, body=msgspec.json.encode(self.content))


NO_CONTENT = Answer(status=204)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, decoded for the operation that it calls.

    Attributes:
        path: The parameters of the path, still percent-encoded.
        query: The parameters after `?`, decoded.
        headers: The headers, by name in lower case.
        content: The JSON of the body; None if there is no body.
        body: The bytes of the body.
        access: The rights of the user whose token the request has.
        base_url: The address by which the client reaches the server, without a slash at its end.
    """

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: Any = None
    body: bytes = b""
    access: Access = field(default_factory=Access)
    base_url: str = ""

    def namespace(self) -> Identifier:
        """Return the namespace in the path.

        Raises:
            InvalidIdentifierError: It is not a valid name.
        """
        return namespace_of(decode_segment(self.path["namespace"]))

    def table(self) -> Identifier:
        """Return the levels of the table's name in the path.

        Raises:
            InvalidIdentifierError: It is not a valid name.
        """
        return to_table_identifier((*self.namespace(), decode_segment(self.path["table"])))

    def view(self) -> Identifier:
        """Return the levels of the view's name in the path.

        Raises:
            InvalidIdentifierError: It is not a valid name.
        """
        return to_table_identifier((*self.namespace(), decode_segment(self.path["view"])))

    def json_object(self, *keys: Key) -> Mapping[str, Any]:
        """Return the body as a JSON object after checking some of its keys.

        Args:
            *keys: The keys, each with a check of its value; other keys are ignored.

        Raises:
            RefusedRequest: There is no body, it is not an object, or a key is missing or has a wrong type. The message lists every problem.
        """
        return checked_object(self.content, "$", *keys)

    def is_true(self, name: str) -> bool:
        """Return the value of a parameter that is `true` or `false`; False if it is missing.

        Raises:
            RefusedRequest: The parameter has another value.
        """
        text = self.query.get(name, "false").lower()
        if text not in ("true", "false"):
            raise bad_request(f"the parameter {name} is {text!r}; it is true or false")
        return text == "true"


def checked_object(value: Any, where: str, *keys: Key) -> Mapping[str, Any]:
    """Return a JSON value after checking that it is an object, and checking some of its keys.

    Args:
        value: The JSON value.
        where: Its JSON path, for errors.
        *keys: The keys, each with a check of its value; other keys are ignored.

    Raises:
        RefusedRequest: It is not an object, or a key is missing or has a wrong type. The message lists every problem.
    """
    problems = list(object_problems(value, where, keys))
    if problems:
        raise bad_request("the body does not have the form that the protocol requires: " + "; ".join(map(str, problems)))
    assert isinstance(value, Mapping)  # noqa: S101  # the line above refused any other type
    return value


def decode_segment(text: str) -> str:
    """Return a segment of a path, percent-decoded.

    Raises:
        RefusedRequest: The bytes are not UTF-8.
    """
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise bad_request(f"the path has bytes that are no UTF-8: {text!r}") from None


def accepts(header: str, media_type: str) -> bool:
    """Return whether a client explicitly accepts a media type, and does not prefer JSON.

    Args:
        header: The header Accept.
        media_type: The media type.
    """
    weights = {"application/json": 0.0, media_type: 0.0}
    for text in header.split(","):
        name, *parameters = (part.strip().lower() for part in text.split(";"))
        if name in weights:
            weight = next((parameter[2:] for parameter in parameters if parameter.startswith("q=")), "1")
            weights[name] = float(weight) if _WEIGHT.fullmatch(weight) else 0.0
    return weights[media_type] > 0 and weights[media_type] >= weights["application/json"]


def namespace_of(text: str) -> Identifier:
    """Return the levels of a namespace in a path or parameter.

    Raises:
        InvalidIdentifierError: It is not a valid name.
    """
    return to_identifier(text.split(SEPARATOR))


def identifier_of(value: Any, where: str) -> Identifier:
    """Return the levels of a name in a body. Spec: REST catalog, TableIdentifier.

    Args:
        value: The JSON value of the name.
        where: Its JSON path, for errors.

    Raises:
        RefusedRequest: The value does not have the form of a name.
        InvalidIdentifierError: The catalog cannot have the name.
    """
    named = checked_object(value, where, Key("namespace", levels), Key("name", text_value))
    return to_table_identifier((*named["namespace"], named["name"]))


def identifier_json(identifier: Identifier) -> dict[str, Any]:
    """Return a name as JSON. Spec: REST catalog, TableIdentifier."""
    return {"namespace": list(identifier[:-1]), "name": identifier[-1]}


def levels(value: Any) -> str | None:
    """Check that a JSON value is a list of texts, such as the levels of a name. Return the problem as text; None if there is none."""
    is_list = isinstance(value, list) and bool(value) and all(isinstance(level, str) for level in value)
    return None if is_list else "expected a list of texts"


def text_value(value: Any) -> str | None:
    """Check that a JSON value is a text. Return the problem as text; None if there is none."""
    return None if isinstance(value, str) else "expected text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage:
    """A page of a list, and the token of the next page; None after the last page."""

    items: Sequence[Any]
    next_token: str | None


def page_of(names: Sequence[Identifier], call: Call) -> ListPage:
    """Return the requested page of a sorted list.

    The token is the last name of the previous page, so that names which are created or dropped in between do not shift pages.

    Args:
        names: The whole list, sorted.
        call: The request, with the parameters `pageToken` and `pageSize`. Without both, the page is the whole list.

    Raises:
        RefusedRequest: The size is not a whole number above 0.
    """
    token, size_text = call.query.get("pageToken"), call.query.get("pageSize")
    if token is None and size_text is None:
        return ListPage(items=names, next_token=None)
    size = MAX_PAGE
    if size_text is not None:
        if not (size_text.isascii() and size_text.isdigit() and len(size_text) < 10 and int(size_text) > 0):
            raise bad_request(f"pageSize is {size_text!r}; it is a whole number above 0")
        size = min(int(size_text), MAX_PAGE)
    rest = [name for name in names if name > tuple(token.split(SEPARATOR))] if token else list(names)
    items = rest[:size]
    return ListPage(items=items, next_token=SEPARATOR.join(items[-1]) if len(rest) > size else None)
