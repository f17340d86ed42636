"""Predictions of any model, as `saccade predict` gives them, and the list of models."""

import time

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from saccade.serve.json_body import FORM_FIELDS, IMAGE, REQUEST, VECTORS, StrictRoute
from saccade.serve.middleware import UPLOAD
from saccade.serve.models import ModelRegistry
from saccade.serve.problems import WORK, Problem, documented
from saccade.serve.routes.responses import (
    JsonPieces,
    attention_json,
    deadline_of,
    json_array,
    json_object,
    json_response,
)
from saccade.serve.schemas import ModelEntry, ModelList, PredictAnswer, PredictRequest
from saccade.tasks import Answer

UPLOAD_PATHS = ("/v1/predict",)
"""Paths that accept uploads."""
UPLOAD_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        REQUEST: {
            "type": "string",
            "description": "The other fields of the request, as a JSON object without `inputs`.",
            "examples": ['{"model": "photos", "attention": true}'],
        },
        **{
            name: {"type": "string", "description": f"The field `{name}`, as its JSON or as text."}
            for name in FORM_FIELDS
        },
        IMAGE: {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "format": "binary"},
            "description": "Image file; one part per input.",
        },
        VECTORS: {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "format": "binary"},
            "description": "File .npy with an array (steps, width); one part per input.",
        },
    },
}


def router(models: ModelRegistry) -> APIRouter:
    """Return the router of /v1/predict and /v1/models."""
    routes = APIRouter(route_class=StrictRoute, tags=["any model"])
    loaded = int(time.time())

    @routes.post(
        "/v1/predict",
        summary="Predict",
        response_model=None,
        responses={
            200: {"model": PredictAnswer, "description": "One answer per input."},
            **documented("no_such_model", *WORK),
        },
        openapi_extra={"requestBody": {"content": {UPLOAD: {"schema": UPLOAD_SCHEMA}}}},
    )
    async def predict(body: PredictRequest, request: Request) -> Response:
        """Answer inputs with any of the models: translate, classify, caption, continue.

        Images and .npy files can also be uploaded by a form, `multipart/form-data`, such as with
        `curl -F image=@photo.png` or `curl -F vectors=@clip.npy`.
        """
        model = models.find(body.model)
        reads = model.task.describe().reads
        if not reads.suffixes and any(type(value) is bytes for value in body.inputs):
            raise Problem(
                "invalid",
                f"{model.name} reads neither images nor vectors; send its inputs as JSON instead",
            )
        answers = await model.predict(
            body.inputs,
            body.options,
            deadline_of(request, model, body.inputs),
            attention=body.attention,
        )

        def encoded(answer: Answer) -> JsonPieces:
            attention = {"attention": attention_json(answer)} if body.attention else {}
            return json_object(answer.to_dict(), **attention)

        return await json_response(
            json_object({"model": model.name}, answers=json_array(map(encoded, answers))),
            answers,
            attention=body.attention,
        )

    @routes.get("/v1/models", summary="List models", responses=documented())
    async def list_models() -> ModelList:
        """List the served models, what each reads, and which options it takes."""
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
