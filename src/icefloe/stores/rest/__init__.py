"""A catalog store behind the REST catalog protocol: HTTP, authentication, tables, views, credentials and scan planning by the server."""
