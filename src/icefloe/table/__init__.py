"""Tables: a name in a catalog, the metadata behind it and the rows in its files.

`Table` and `StaticTable` are public here under the names of PyIceberg; `write_audit_publish` stages writes.
"""

from icefloe.table.rows.write_context import write_audit_publish as write_audit_publish
from icefloe.table.static_table import StaticTable as StaticTable
from icefloe.table.table import Table as Table
