"""The accelerators of Spark that Icefloe distinguishes: plugins that read Parquet files by native code in the place of Spark's reader.

`java_compiler.py` writes the table into `java/Accelerator.java`, which decides in every plan what an accelerator reads; sessions of Spark Connect, which have
no classes of Icefloe, use it in Python.
"""

from typing import NamedTuple


class AcceleratorPlugin(NamedTuple):
    """A plugin.

    Attributes:
        name: The name of the accelerator.
        plugin: The class in `spark.plugins`.
        setting: The setting that turns it off where it is false.
        finds_by_id: Whether it finds columns by their field ids; otherwise it finds them by their names.
    """

    name: str
    plugin: str
    setting: str
    finds_by_id: bool

    @property
    def java(self) -> str:
        """The Java expression that creates the accelerator."""
        return f'new Accelerator("{self.name}", "{self.plugin}", "{self.setting}", {str(self.finds_by_id).lower()})'


COMET = AcceleratorPlugin("Comet", "org.apache.spark.CometPlugin", "spark.comet.enabled", True)
RAPIDS = AcceleratorPlugin("RAPIDS", "com.nvidia.spark.SQLPlugin", "spark.rapids.sql.enabled", True)
GLUTEN = AcceleratorPlugin("Gluten", "org.apache.gluten.GlutenPlugin", "spark.gluten.enabled", False)  # Velox matches names
ACCELERATOR_PLUGINS = (COMET, RAPIDS, GLUTEN)
