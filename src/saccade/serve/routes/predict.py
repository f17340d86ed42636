"""Predictions of any model, scores of given outputs, and the list of models."""

import time

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from saccade.serve.cards import ModelCard
from saccade.serve.json_body import FORM_FIELDS, IMAGE, REQUEST, VECTORS, StrictRoute
from saccade.serve.middleware import UPLOAD
from saccade.serve.models import ModelRegistry, ServedModel
from saccade.serve.problems import WORK, Problem, documented
from saccade.serve.routes.responses import (
    JsonPieces,
    attention_json,
    deadline_of,
    json_array,
    json_object,
    json_response,
)
from saccade.serve.schemas import (
    ModelEntry,
    ModelList,
    ModelScore,
    PredictAnswer,
    PredictRequest,
    ScoreAnswer,
    ScoreRequest,
)
from saccade.tasks import Answer

UPLOAD_PATHS = ("/v1/predict", "/v1/score")
"""Paths that accept uploads."""


def upload_body(request: type[PredictRequest | ScoreRequest]) -> dict[str, object]:
    """Return the OpenAPI description of the request body as an upload."""
    fields = [name for name in FORM_FIELDS if name in request.model_fields]
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            REQUEST: {
                "type": "string",
                "description": "The other fields of the request, as a JSON object without "
                "`inputs`.",
                "examples": ['{"model": "photos", "attention": true}'],
            },
            **{
                name: {
                    "type": "string",
                    "description": f"The field `{name}`, as its JSON or as text.",
                }
                for name in fields
            },
            IMAGE: _files("Image file; one part per input."),
            VECTORS: _files("File .npy with an array (steps, width); one part per input."),
        },
    }
    return {"content": {UPLOAD: {"schema": schema}}}


def _files(description: str) -> dict[str, object]:
    file = {"type": "string", "format": "binary"}
    return {"type": "array", "minItems": 1, "items": file, "description": description}


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
        openapi_extra={"requestBody": upload_body(PredictRequest)},
    )
    async def predict(body: PredictRequest, request: Request) -> Response:
        """Answer inputs with any of the models: translate, classify, caption, continue.

        Images and .npy files can also be uploaded by a form, `multipart/form-data`, such as with
        `curl -F image=@photo.png` or `curl -F vectors=@clip.npy`.
        """
        model = _model_for(models, body)
        answers = await model.predict(
            body.inputs,
            body.options,
            deadline_of(request, model, body.inputs),
            attention=body.attention,
        )
        return await _response(model, answers, attention=body.attention)

    @routes.post(
        "/v1/score",
        summary="Score given outputs",
        response_model=None,
        responses={
            200: {"model": ScoreAnswer, "description": "The scores of one output per input."},
            **documented("no_such_model", *WORK),
        },
        openapi_extra={"requestBody": upload_body(ScoreRequest)},
    )
    async def score(body: ScoreRequest, request: Request) -> Response:
        """Return how probable given outputs are, token by token: why not this answer?

        Each output is forced in one pass; nothing is generated. An upload has its `outputs` in the
        part `request`.
        """
        model = _model_for(models, body)
        answers = await model.score(
            body.inputs,
            body.outputs,
            deadline_of(request, model, body.inputs),
            attention=body.attention,
        )
        return await _response(model, answers, attention=body.attention)

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
                    score=_score_of(model.card),
                    trained=model.card.trained or None,
                    parameters=model.card.parameters,
                    examples=list(model.card.examples),
                )
                for model in models
            ]
        )

    return routes


def _score_of(card: ModelCard) -> ModelScore | None:
    if card.score is None:
        return None
    return ModelScore(
        metric=card.metric,
        value=card.score.value,
        interval=card.score.interval,
        items=card.items,
        text=card.text,
    )


def _model_for(models: ModelRegistry, body: PredictRequest | ScoreRequest) -> ServedModel:
    """Return the model of a request; raise if it cannot read files and the inputs are some."""
    model = models.find(body.model)
    reads = model.task.describe().reads
    if not reads.suffixes and any(type(value) is bytes for value in body.inputs):
        raise Problem(
            "invalid",
            f"{model.name} reads neither images nor vectors; send its inputs as JSON instead",
        )
    return model


async def _response(model: ServedModel, answers: list[Answer], *, attention: bool) -> Response:
    def encoded(answer: Answer) -> JsonPieces:
        record = {"attention": attention_json(answer)} if attention else {}
        return json_object(answer.to_dict(), **record)

    pieces = json_object({"model": model.name}, answers=json_array(map(encoded, answers)))
    return await json_response(pieces, answers, attention=attention)
