"""Views: each is a name in a catalog and a query, stored once for each SQL dialect. `View`, `ViewVersion` and `SQLViewRepresentation` have PyIceberg's names.

The metadata of views is `icefloe.spec.view`. Spec: View spec, View Metadata.
"""

from typing import TYPE_CHECKING

from icefloe.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from icefloe.spec.view.view_version import SQLViewRepresentation as SQLViewRepresentation
    from icefloe.spec.view.view_version import ViewVersion as ViewVersion
    from icefloe.view.view import View as View
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "icefloe.spec.view.view_version": "SQLViewRepresentation, ViewVersion",
            "icefloe.view.view": "View",
        },
    )
