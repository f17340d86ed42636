"""The OpenAPI description: complete, and nothing that it allows makes the server fail."""

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

from saccade.serve.problems import STATUS
from tests.serve.conftest import asked

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
)


@pytest.fixture(scope="module")
def described(everything):
    return asked(everything, "GET", "/openapi.json").json()


def test_every_route_tells_every_status(described):
    assert described["openapi"].startswith("3.1")
    paths = described["paths"]
    assert {path for path, known in paths.items() if "post" in known} == {
        "/v1/predict",
        "/translate",
        "/v1/completions",
    }
    always = {"401", "403", "405", "421", "500", "200"}
    for path, known in paths.items():
        for method, route in known.items():
            told = set(route["responses"])
            assert always <= told, path
            assert route["description"] or route["summary"]
            if method == "post":
                assert {"400", "408", "413", "415", "422", "429", "503", "504"} <= told
            for status, answer in route["responses"].items():
                if status != "200":
                    [schema] = [each["schema"] for each in answer["content"].values()]
                    assert schema == {"$ref": "#/components/schemas/ProblemBody"}
    said = {
        code
        for known in paths.values()
        for route in known.values()
        for status, answer in route["responses"].items()
        if status != "200"
        for code in answer["description"].split(", ")
    }
    assert said == set(STATUS) - {"gone"}  # which nobody is there to read


def test_requests_refuse_what_they_do_not_name(described):
    schemas = described["components"]["schemas"]
    for name, schema in schemas.items():
        if schema.get("type") == "object":
            assert schema["additionalProperties"] is False, name
    assert "HTTPValidationError" not in schemas


def test_generated_requests_never_make_it_fail(everything):
    schema = schemathesis.openapi.from_asgi(
        "/openapi.json", everything, headers={"host": "localhost"}
    )

    @settings(
        max_examples=12,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case):
        case.call_and_validate(checks=list(CHECKS), headers={"host": "localhost"})

    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 9
    for operation in operations:
        given(case=operation.as_strategy())(ask)()
