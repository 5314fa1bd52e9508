"""The OpenAPI document says what the server does: requests are drawn from it, right and wrong ones,
and each answer is held to it.
"""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS
from schemathesis.generation import GenerationMode
from tests.support.serving import PATIENT, Running

from jumar.server.routes import ROUTES, Row

SHAPE_ONLY = "positive_data_acceptance"
"""A body may have the shape of the document and ask a model for what it has not: it is refused."""

FAILS_ALONE = {"/v1/bundle": "negative_data_rejection"}
"""Where a part of a body may be wrong and only that part is refused, with a status of its own."""


@pytest.fixture(scope="module")
def described(server: Running) -> Any:
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json")


@pytest.mark.parametrize("row", ROUTES, ids=[f"{row.method} {row.path}" for row in ROUTES])
def test_no_request_makes_the_server_fail_and_each_answer_is_as_described(
    described: Any, row: Row
) -> None:
    """Names of models that are drawn are none: in bodies they become the toy's."""
    operation = described[row.path][row.method]
    modes = [GenerationMode.POSITIVE]
    if operation.body or operation.query or "{" in row.path:
        modes.append(GenerationMode.NEGATIVE)

    @settings(max_examples=10, suppress_health_check=list(HealthCheck))
    @given(st.one_of(*(operation.as_strategy(mode) for mode in modes)))
    def holds(case: schemathesis.Case) -> None:
        body = case.body if isinstance(case.body, dict) else {}
        if isinstance(body.get("model"), str):
            body["model"] = "toy"
        response = case.call(timeout=PATIENT)
        excused = [SHAPE_ONLY, *([FAILS_ALONE[row.path]] if row.path in FAILS_ALONE else [])]
        if response.status_code == 504 and "deadline_ms" in body:
            excused.append("not_a_server_error")
        case.validate_response(response, excluded_checks=CHECKS.get_by_names(excused))

    holds()


def test_every_body_and_every_form_is_described(server: Running) -> None:
    paths = server.client.get("/openapi.json").json()["paths"]
    bodies = {path: one["post"].get("requestBody") for path, one in paths.items() if "post" in one}
    assert all(body is not None for body in bodies.values())
    content = {path: body["content"] for path, body in bodies.items() if body is not None}
    forms = {path for path, kinds in content.items() if "multipart/form-data" in kinds}
    assert {"/v1/generate", "/v1/images/edits", "/v1/audio/transcriptions"} <= forms


def test_a_method_that_a_path_does_not_have_is_refused_with_those_that_it_has(
    server: Running,
) -> None:
    refused = server.client.put("/v1/jobs/job_none")
    assert refused.status_code == 405
    assert set(refused.headers["allow"].split(", ")) == {"GET", "HEAD", "DELETE"}
