"""HTTP: an address that clients, notebooks and browsers ask (Starlette, by uvicorn)."""
