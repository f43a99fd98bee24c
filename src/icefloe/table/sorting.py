"""Sort orders under the module name of PyIceberg: `from icefloe.table.sorting import SortField, SortOrder`."""

from icefloe.spec.partitioning.sort_order import FIRST_ORDER_ID as INITIAL_SORT_ORDER_ID
from icefloe.spec.partitioning.sort_order import UNSORTED_ORDER_ID as UNSORTED_SORT_ORDER_ID
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder

__all__ = ["INITIAL_SORT_ORDER_ID", "UNSORTED_SORT_ORDER", "UNSORTED_SORT_ORDER_ID", "NullOrder", "SortDirection", "SortField", "SortOrder"]
