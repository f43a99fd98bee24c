"""The REST catalog server behind `icefloe serve`: any catalog of Icefloe through the protocol of Iceberg's REST catalogs, over Starlette and uvicorn."""
