"""Answers of any model, as `saccade predict` gives them, and which models there are."""

import time

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from saccade.serve.json_body import IMAGE, REQUEST, StrictRoute
from saccade.serve.middleware import UPLOAD
from saccade.serve.models import Models
from saccade.serve.problems import WORK, Problem, documented
from saccade.serve.routes.asking import Pieces, listed, record_of, waiting, with_raw, written
from saccade.serve.schemas import ModelEntry, ModelList, PredictAnswer, PredictRequest
from saccade.tasks import Answer

UPLOADS = ("/v1/predict",)
"""The paths that accept uploads."""
UPLOAD_SCHEMA = {
    "type": "object",
    "required": [IMAGE],
    "additionalProperties": False,
    "properties": {
        REQUEST: {
            "type": "string",
            "description": "The other fields, as a JSON object without `inputs`.",
            "examples": ['{"model": "photos", "attention": true}'],
        },
        IMAGE: {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "format": "binary"},
            "description": "The file of an image: one part per input.",
        },
    },
}


def router(models: Models) -> APIRouter:
    """/v1/predict and /v1/models."""
    routes = APIRouter(route_class=StrictRoute, tags=["any model"])
    loaded = int(time.time())

    @routes.post(
        "/v1/predict",
        response_model=None,
        responses={200: {"model": PredictAnswer}, **documented("no_such_model", *WORK)},
        openapi_extra={"requestBody": {"content": {UPLOAD: {"schema": UPLOAD_SCHEMA}}}},
    )
    async def predict(asked: PredictRequest, request: Request) -> Response:
        """Answer inputs with one of the models."""
        model = models.find(asked.model)
        if model.task.reads != "image" and any(isinstance(each, bytes) for each in asked.inputs):
            raise Problem("invalid", f"{model.name} does not read images; send its inputs as JSON")
        found = await model.answers(
            asked.inputs,
            asked.options,
            waiting(request, model, asked.inputs),
            attention=asked.attention,
        )

        def one(answer: Answer) -> Pieces:
            looked = {"attention": record_of(answer)} if asked.attention else {}
            return with_raw(answer.as_json(), **looked)

        return await written(
            with_raw({"model": model.name}, answers=listed(map(one, found))),
            found,
            attention=asked.attention,
        )

    @routes.get("/v1/models", responses=documented())
    async def list_models() -> ModelList:
        """Which models there are, and what they read."""
        return ModelList(
            data=[
                ModelEntry(
                    id=model.name,
                    created=loaded,
                    task=model.task.name,
                    reads=model.task.reads,
                    engine=model.engine,
                    writes=model.task.generation is not None,
                    streams=model.streams,
                    languages=model.languages,
                )
                for model in models
            ]
        )

    return routes
