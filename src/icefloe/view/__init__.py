"""Views: a name in a catalog, and the query behind it in the dialects of engines.

What a view's metadata holds is the kernel's. Spec: View spec, View Metadata.
"""
