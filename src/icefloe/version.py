"""`VERSION`: the version of the installed package, `icefloe.__version__`."""

from importlib.metadata import version

VERSION = version("icefloe")
