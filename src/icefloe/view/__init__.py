"""Views: a name in a catalog, and the query behind it in the dialects of engines.

The metadata of views is `icefloe.kernel.view`. Spec: View spec, View Metadata.
"""
