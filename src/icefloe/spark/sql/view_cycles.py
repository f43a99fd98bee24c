"""`check_no_cycle`: no view may read itself, by its own query or by those of the views that this names: nobody could read it any more.

Which views a query names is seen when Spark loads them, in the thread that asks it to. Floor: spark. Spec: View spec, Overview.
"""

from collections.abc import Mapping
from contextlib import suppress

from pyspark.sql import SparkSession

from icefloe.errors import InvalidInputError
from icefloe.spark.sql.view_answers import loaded_views, rows_of
from icefloe.view.view import View


def check_no_cycle(spark: SparkSession, name: str, views: Mapping[str, tuple[str, View]]) -> None:
    """Checks the views that a query names, which is to be that of the view `name`. All names are those in SQL, catalog first.

    Raises:
        InvalidInputError: the view would read itself; the message says by way of which views.
    """
    paths = {other: [name, other] for other in views}
    left = dict(views)
    while left:
        other, (catalog_name, view) = left.popitem()
        if other == name:
            raise InvalidInputError(
                f"view {name} would read itself: {' reads '.join(paths[other])}",
                next_step="give it a query that does not name it, or make a view of another name",
            )
        with suppress(InvalidInputError), loaded_views() as more:  # one that cannot be read reads nothing
            rows_of(spark, catalog_name, view)
        for found in more.keys() - paths.keys():
            paths[found] = [*paths[other], found]
            left[found] = more[found]
