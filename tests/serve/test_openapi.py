"""The OpenAPI description: complete, and the server conforms to it."""

import re

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from saccade.serve.problems import PROBLEMS
from tests.serve.conftest import send_request

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
)


@pytest.fixture(scope="module")
def schema(all_models):
    return send_request(all_models, "GET", "/openapi.json").json()


def test_every_route_documents_every_status(schema):
    assert schema["openapi"].startswith("3.1")
    paths = schema["paths"]
    assert {path for path, known in paths.items() if "post" in known} == {
        "/v1/predict",
        "/v1/score",
        "/translate",
        "/v1/completions",
    }
    always = {"401", "403", "405", "421", "500", "200"}
    for path, known in paths.items():
        for method, route in known.items():
            statuses = set(route["responses"])
            assert always <= statuses, path
            if method == "post":
                assert {"400", "408", "413", "415", "422", "429", "503", "504"} <= statuses
            for status, answer in route["responses"].items():
                if status != "200":
                    [body] = [content["schema"] for content in answer["content"].values()]
                    assert body == {"$ref": "#/components/schemas/ProblemBody"}
    codes = {
        code
        for known in paths.values()
        for route in known.values()
        for status, answer in route["responses"].items()
        if status != "200"
        for code in re.findall(r"`(\w+)`: [A-Z]", answer["description"])
    }
    assert codes == set(PROBLEMS) - {"gone"}  # its client has left


def test_schemas_forbid_unknown_fields(schema):
    schemas = schema["components"]["schemas"]
    for name, described in schemas.items():
        if described.get("type") == "object":
            assert described["additionalProperties"] is False, name
    assert "HTTPValidationError" not in schemas


def test_every_route_and_field_is_described(schema):
    for path, methods in schema["paths"].items():
        for route in methods.values():
            assert route["summary"], path
            assert len(route["description"]) > 30, path
            assert route["responses"]["200"]["description"], path
    for name, described in schema["components"]["schemas"].items():
        assert len(described["description"]) > 10, name
        for field, about in described.get("properties", {}).items():
            if "$ref" not in about:
                assert about.get("description", "").endswith("."), f"{name}.{field}"


def test_generated_requests_conform_to_the_schema(all_models):
    schema = schemathesis.openapi.from_asgi(
        "/openapi.json", all_models, headers={"host": "localhost"}
    )

    @settings(
        max_examples=12,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(case):
        case.call_and_validate(checks=list(CHECKS), headers={"host": "localhost"})

    operations = [operation.ok() for operation in schema.get_all_operations()]
    assert len(operations) >= 9
    for operation in operations:
        given(case=operation.as_strategy())(check)()
