"""Name mappings under the module name of PyIceberg: `from icefloe.table.name_mapping import NameMapping`."""

from icefloe.spec.schema.name_mapping import MappedField, NameMapping
from icefloe.spec.schema.name_mapping import mapping_for as create_mapping_from_schema
from icefloe.spec.schema.name_mapping import mapping_from_json as parse_mapping_from_json

__all__ = ["MappedField", "NameMapping", "create_mapping_from_schema", "parse_mapping_from_json"]
