"""The REST catalog server behind `icefloe serve`: it serves any catalog of Icefloe by the protocol of Iceberg's REST catalogs, with Starlette and uvicorn."""
