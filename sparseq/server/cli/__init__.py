"""Commands of the server: `serve`, `mcp`, `token` and `audit`."""
