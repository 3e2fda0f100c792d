"""HTTP: the address for clients, notebooks and browsers (Starlette, by uvicorn)."""
