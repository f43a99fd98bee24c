"""Type aliases under the module name of PyIceberg: `from icefloe.typedef import Identifier`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from icefloe.spec.identifier import Identifier

Properties = dict[str, Any]
EMPTY_DICT: Mapping[str, str] = MappingProxyType({})
UTF8 = "utf-8"

__all__ = ["EMPTY_DICT", "UTF8", "Identifier", "Properties"]
