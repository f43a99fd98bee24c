"""Tables: a name in a catalog, the metadata behind it and the rows in its files.

`Table`, `StaticTable`, `Transaction`, `DataScan`, `FileScanTask`, `TableProperties` and `UpsertResult` are public here under the names of PyIceberg;
`write_audit_publish` stages writes.
"""

from typing import TYPE_CHECKING

from icefloe.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from icefloe.operations.data_scan import DataScan as DataScan
    from icefloe.operations.staging import write_audit_publish as write_audit_publish
    from icefloe.operations.write_result import UpsertResult as UpsertResult
    from icefloe.scan.file_scan_task import FileScanTask as FileScanTask
    from icefloe.table.static_table import StaticTable as StaticTable
    from icefloe.table.table import Table as Table
    from icefloe.table.table_property_names import TableProperties as TableProperties
    from icefloe.table.transaction import Transaction as Transaction
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "icefloe.operations.data_scan": "DataScan",
            "icefloe.operations.staging": "write_audit_publish",
            "icefloe.operations.write_result": "UpsertResult",
            "icefloe.scan.file_scan_task": "FileScanTask",
            "icefloe.table.static_table": "StaticTable",
            "icefloe.table.table": "Table",
            "icefloe.table.table_property_names": "TableProperties",
            "icefloe.table.transaction": "Transaction",
        },
    )
