"""The accelerators of Spark that Icefloe distinguishes: plugins that read Parquet files by native code in the place of Spark's reader.

A session has one by its plugin, or by its class of rules alone, which the plugin otherwise adds to the session's extensions.

`java_compiler.py` writes the table into `java/Accelerator.java`, which decides in every plan what an accelerator reads; sessions of Spark Connect, which have
no classes of Icefloe, use it in Python.
"""

from typing import NamedTuple

PLUGINS_CONF = "spark.plugins"
EXTENSIONS_CONF = "spark.sql.extensions"


class AcceleratorPlugin(NamedTuple):
    """A plugin.

    Attributes:
        name: The name of the accelerator.
        plugin: The class in `spark.plugins`.
        extension: The class in `spark.sql.extensions` that takes plans over.
        setting: The setting that turns it off where it is false.
        finds_by_id: Whether it finds columns by their field ids; otherwise it finds them by their names.
    """

    name: str
    plugin: str
    extension: str
    setting: str
    finds_by_id: bool

    @property
    def java(self) -> str:
        """The Java expression that creates the accelerator."""
        texts = ", ".join(f'"{text}"' for text in (self.name, self.plugin, self.extension, self.setting))
        return f"new Accelerator({texts}, {str(self.finds_by_id).lower()})"

    def is_in(self, plugins: str, extensions: str) -> bool:
        """Return whether the values of `spark.plugins` and `spark.sql.extensions` name it."""
        return any(name in map(str.strip, names.split(",")) for name, names in ((self.plugin, plugins), (self.extension, extensions)))


COMET = AcceleratorPlugin(
    "Comet", "org.apache.spark.CometPlugin", "org.apache.comet.CometSparkSessionExtensions", "spark.comet.enabled", True
)
RAPIDS = AcceleratorPlugin(
    "RAPIDS", "com.nvidia.spark.SQLPlugin", "com.nvidia.spark.rapids.SQLExecPlugin", "spark.rapids.sql.enabled", True
)
GLUTEN = AcceleratorPlugin(
    "Gluten", "org.apache.gluten.GlutenPlugin", "org.apache.gluten.extension.GlutenSessionExtensions", "spark.gluten.enabled", False
)  # Velox matches names
ACCELERATOR_PLUGINS = (COMET, RAPIDS, GLUTEN)
