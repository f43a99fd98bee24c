"""A catalog store that uses the REST catalog protocol: HTTP, authentication, tables, views, credentials and server-side scan planning."""
