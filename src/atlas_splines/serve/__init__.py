"""A model in production: `atlas serve`, its journal, and the page of its life.

Imports `versions`, `tables` and what is below them; the only importer of starlette, uvicorn and
prometheus_client. Only the command may import it.
"""
