"""Tables: pointer, files and rules joined. A public door: `Table` and `StaticTable` are named here as PyIceberg's users know them; and staged writes."""

from icefloe.table.rows.staged_writes import write_audit_publish as write_audit_publish
from icefloe.table.static_table import StaticTable as StaticTable
from icefloe.table.table import Table as Table
