"""The HTTP application: its addresses, their roles, and their description."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

import sparseq
from sparseq.base.errors import ServerError, Why
from sparseq.server.fields import NUMBER, InputFields, object_schema
from sparseq.server.http.curator_endpoints import (
    AUDITED,
    NAME,
    ROWS,
    TOKEN,
    audit,
    ingest,
    jobs,
    make_backup,
    make_token,
    revoke_token,
    tokens,
)
from sparseq.server.http.endpoints import (
    Call,
    Endpoint,
    as_json,
    cancel_if_gone,
    failure,
    from_here,
    signed_in,
)
from sparseq.server.http.metrics import TYPE, metrics_of
from sparseq.server.http.pages import nothing_page, page_routes
from sparseq.server.http.question_endpoints import FORMATS, TAKES, explain, query
from sparseq.server.http.read_endpoints import (
    LISTED,
    NOTED,
    budget,
    card,
    catalog,
    events,
    release,
    releases,
    series,
)
from sparseq.server.mcp import handle
from sparseq.server.service import Service
from sparseq.server.tokens import Role

ASKERS, CURATOR = (Role.ANALYST, Role.CURATOR), (Role.CURATOR,)
_JSON = "application/json"
_SAFE = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


async def metrics(call: Call) -> Response:
    """Counts for Prometheus; nothing private, and no times, which depend on rows.

    A curator's token also gets the number of times that evaluators differed on a user's rows.
    """
    service = call.service
    found = await metrics_of(service, call.who.role is Role.CURATOR)
    lines = [line for metric in found for line in metric.lines()]
    return Response("\n".join(lines) + "\n", 200, None, TYPE)


async def mcp(call: Call) -> Response:
    """Tools for agents: the Model Context Protocol (streamable HTTP, without streams)."""
    if call.request.headers.get("origin") and not from_here(call.request, call.public):
        raise ServerError(Why.ROLE, "a page of another site may not use this token")
    said = await call.body()
    found = await cancel_if_gone(call.request, handle(call.service, call.who, said))
    return Response(status_code=202) if found is None else Response(found, 200, None, _JSON)


ENDPOINTS = (
    Endpoint("POST", "/v1/query", query, ASKERS, TAKES, FORMATS),
    Endpoint("POST", "/v1/explain", explain, ASKERS, TAKES),
    Endpoint("GET", "/v1/catalog", catalog),
    Endpoint("GET", "/v1/releases", releases, query=LISTED),
    Endpoint(
        "GET", "/v1/releases/{number}", release, gives=FORMATS, path_fields={"number": NUMBER}
    ),
    Endpoint("GET", "/v1/series", series),
    Endpoint("GET", "/v1/budget", budget),
    Endpoint("GET", "/v1/card", card, query=NOTED),
    Endpoint("GET", "/v1/events", events, gives=("text/event-stream",)),
    Endpoint("POST", "/v1/ingest", ingest, CURATOR, query=ROWS),
    Endpoint("GET", "/v1/jobs", jobs, CURATOR),
    Endpoint("GET", "/v1/tokens", tokens, CURATOR),
    Endpoint("POST", "/v1/tokens", make_token, CURATOR, TOKEN),
    Endpoint("DELETE", "/v1/tokens/{name}", revoke_token, CURATOR, path_fields=NAME),
    Endpoint("GET", "/v1/audit", audit, CURATOR, query=AUDITED),
    Endpoint("POST", "/v1/backup", make_backup, CURATOR),
    Endpoint("POST", "/mcp", mcp, ASKERS),
    Endpoint("GET", "/metrics", metrics, gives=("text/plain",)),
)


def application(service: Service, public: str = "") -> Starlette:
    """Return the application of a service.

    Args:
        service: The service.
        public: The address for browsers, such as https://numbers.example.org, if a proxy in front
            uses another name.
    """
    described = openapi()

    def route(endpoint: Endpoint) -> Route:
        async def answer(request: Request) -> Response:
            try:
                who = await signed_in(request, service, bearer(request))
                who.needs(*endpoint.roles)
                call = await Call(request, service, who, public).reading(endpoint)
                response = await endpoint.handler(call)
            except ClientDisconnect:
                response = Response(status_code=499)
            except Exception as error:
                response = failure(error)
            for name, value in _SAFE.items():
                response.headers.setdefault(name, value)
            return response

        return Route(endpoint.path, answer, methods=[endpoint.method])

    async def healthz(request: Request) -> Response:
        well = await service.well()
        return as_json({"ok": well}, 200 if well else 503, _SAFE)

    async def readyz(request: Request) -> Response:
        return as_json({"ready": service.ready}, 200 if service.ready else 503, _SAFE)

    async def described_as(request: Request) -> Response:
        return as_json(described, headers=_SAFE)

    async def nothing_here(request: Request, error: Exception) -> Response:
        if request.url.path == "/mcp":  # clients expect this if there are no streams
            return Response(status_code=405, headers={"Allow": "POST"})
        said = f"there is nothing at {request.method} {request.url.path[:100]}"
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            return nothing_page(said)
        return failure(ServerError(Why.ABSENT, said, "GET /openapi.json has all addresses"))

    other: list[tuple[str, Callable[[Request], Awaitable[Response]]]] = [
        ("/healthz", healthz),
        ("/readyz", readyz),
        ("/openapi.json", described_as),
    ]
    return Starlette(
        routes=[
            *(route(endpoint) for endpoint in ENDPOINTS),
            *(Route(path, handler) for path, handler in other),
            *page_routes(service, public),
        ],
        exception_handlers={404: nothing_here, 405: nothing_here},
    )


def bearer(request: Request) -> str:
    """Return the token of a request; "": none."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def openapi() -> dict[str, Any]:
    """Return the application's description (OpenAPI 3.1)."""
    paths: dict[str, dict[str, Any]] = {}
    for one in ENDPOINTS:
        path = one.path
        operation: dict[str, Any] = {
            "summary": one.about,
            "security": [{"token": []}],
            "responses": {
                "200": {"description": "OK", "content": {kind: {} for kind in one.gives}},
                "default": {"$ref": "#/components/responses/Error"},
            },
        }
        if parameters := [*_places("path", one.path_fields), *_places("query", one.query)]:
            operation["parameters"] = parameters
        if one.takes:
            schema = object_schema(one.takes)
            operation["requestBody"] = {
                "required": True,
                "content": {"application/json": {"schema": schema}},
            }
        paths.setdefault(path, {})[one.method.lower()] = operation
    fields = {name: {"type": "string"} for name in ("type", "message", "hint")}
    fields["charged"] = {"type": ["boolean", "null"]}  # type: ignore[dict-item]
    error = {"type": "object", "properties": {"error": {"type": "object", "properties": fields}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "sparseq", "version": sparseq.__version__},
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Error": {
                    "description": "What was wrong, and how to mend it",
                    "content": {"application/json": {"schema": error}},
                }
            },
        },
    }


def _places(place: str, fields: InputFields) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": place, "required": one.needed, "schema": one.schema()}
        for name, one in fields.items()
    ]
