"""Write the reference of the HTTP API from the server's own OpenAPI description.

`page()` returns the Markdown of reference/http-api.md; docs/make_site.py calls it.
"""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from griffe import Docstring, DocstringSectionAttributes

from saccade.serve import app
from saccade.serve.auth import Authorization
from saccade.serve.limits import RequestLimits
from saccade.serve.models import ModelRegistry
from saccade.serve.prometheus import ServerMetrics

ABOUT = """# HTTP API

The API of [`saccade serve`](../how-to/serve.md). This page is generated from the OpenAPI
description that a running server gives at `/openapi.json`.

Every error has the same body,
`{"error": {"code": "…", "message": "…", "type": "…", "param": "…"}}`. The code is for programs, the
message for people.

"""
LIMITS = """
## Limits

The defaults of a server. `saccade serve --help` lists those that have an option.

| limit | default | |
|---|---|---|
"""


def page() -> str:
    """Return the complete page."""
    description = openapi()
    routes = [
        (f"{method.upper()} {path}", route)
        for path, methods in description["paths"].items()
        for method, route in methods.items()
    ]
    table = "| route | |\n|---|---|\n"
    table += "".join(f"| `{name}` | {_text(route['description'])} |\n" for name, route in routes)
    sections = "".join("".join(_route(name, route)) for name, route in routes)
    schemas = "\n## Schemas\n" + "".join(
        "".join(_schema(name, schema))
        for name, schema in description["components"]["schemas"].items()
    )
    return ABOUT + table + sections + schemas + LIMITS + "".join(_limits())


def openapi() -> dict[str, Any]:
    """Return the OpenAPI description of a server with a token and without models."""
    metrics = ServerMetrics()
    authorization = Authorization.for_address(
        "127.0.0.1", token="0" * 16, open_paths=app.open_paths()
    )
    server = app.build(
        ModelRegistry([], metrics),
        authorization=authorization,
        limits=RequestLimits(),
        metrics=metrics,
    )
    description: dict[str, Any] = server.app.openapi()  # type: ignore[attr-defined]
    return description


def _route(name: str, route: dict[str, Any]) -> Iterator[str]:
    yield f"\n## {name}\n\n{_text(route['description'])}\n\n"
    for kind, content in route.get("requestBody", {}).get("content", {}).items():
        yield f"Body, `{kind}`: {_type(content['schema'])}\n\n"
        if "properties" in content["schema"]:
            yield from _properties(content["schema"])
    yield "| status | codes or body |\n|---|---|\n"
    for status, response in sorted(route["responses"].items()):
        yield f"| {status} | {_outcome(status, response)} |\n"


def _outcome(status: str, response: dict[str, Any]) -> str:
    if status == "200":
        kinds = [
            f"`{kind}`" + (f": {_type(content['schema'])}" if content.get("schema") else "")
            for kind, content in response.get("content", {}).items()
        ]
        return ", ".join(kinds)
    codes = ", ".join(f"`{code}`" for code in response["description"].split(", "))
    headers = "".join(f"; header `{name}`" for name in response.get("headers", {}))
    return codes + headers


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"\n### {name}\n\n{_text(schema.get('description', ''))}\n\n"
    yield from _properties(schema)


def _properties(schema: dict[str, Any]) -> Iterator[str]:
    yield "| field | type | default | |\n|---|---|---|---|\n"
    for name, field in schema.get("properties", {}).items():
        required = name in schema.get("required", ())
        default = "required" if required else _text(str(field.get("default", "")))
        description = _text(field.get("description", ""))
        yield f"| `{name}` | {_type(field)} | {default} | {description} |\n"
    yield "\n"


def _type(schema: dict[str, Any]) -> str:
    """Return a type in words: `string`, `list of integer`, a link to another schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    bounds = {
        "minimum": "≥",
        "exclusiveMinimum": ">",
        "maximum": "≤",
        "exclusiveMaximum": "<",
        "minLength": "length ≥",
        "maxLength": "length ≤",
    }
    limits = [f"{sign} {schema[key]}" for key, sign in bounds.items() if key in schema]
    return " ".join([schema.get("type", "any"), ", ".join(limits)]).strip()


def _limits() -> Iterator[str]:
    texts = {
        attribute.name: attribute.description
        for section in Docstring(RequestLimits.__doc__ or "").parse("google")
        if isinstance(section, DocstringSectionAttributes)
        for attribute in section.value
    }
    for field in fields(RequestLimits):
        yield f"| `{field.name}` | {field.default:,} | {_text(texts[field.name])} |\n"


def _text(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|").replace("<", "&lt;")
