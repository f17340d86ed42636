"""Translation in the shape of LibreTranslate's API: /translate and /languages.

Languages come from the names of models: one that is named en-fr translates from en to fr. Without
such a name they are those of the columns or files that the run was trained on.
"""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from saccade.serve.json_body import StrictRoute
from saccade.serve.models import ModelRegistry
from saccade.serve.problems import WORK, documented
from saccade.serve.routes.responses import (
    JsonPieces,
    attention_json,
    deadline_of,
    json_array,
    json_object,
    json_response,
)
from saccade.serve.schemas import Language, TranslateAnswer, TranslateRequest
from saccade.tasks import Answer


def router(models: ModelRegistry) -> APIRouter:
    """Return the router of /translate and /languages."""
    routes = APIRouter(route_class=StrictRoute, tags=["translation"])

    @routes.post(
        "/translate",
        summary="Translate",
        response_model=None,
        responses={
            200: {"model": TranslateAnswer, "description": "One translation per text."},
            **documented(*WORK),
        },
    )
    async def translate(body: TranslateRequest, request: Request) -> Response:
        """Translate one text or several, in the shape of LibreTranslate's API."""
        model = models.translator(body.source, body.target)
        options: dict[str, object] = {} if body.split is None else {"split": body.split}
        if body.alternatives:
            options["num_best"] = 1 + body.alternatives
        answers = await model.predict(
            body.texts, options, deadline_of(request, model, body.texts), attention=body.attention
        )
        return await json_response(_encoded(body, answers), answers, attention=body.attention)

    @routes.get("/languages", summary="List languages", responses=documented())
    async def languages() -> list[Language]:
        """List the source languages, and the target languages of each."""
        targets: dict[str, list[str]] = {}
        for source, target in filter(None, (model.languages for model in models)):
            targets.setdefault(source, []).append(target)
        return [Language(code=code, name=code, targets=into) for code, into in targets.items()]

    return routes


def _encoded(body: TranslateRequest, answers: list[Answer]) -> JsonPieces:
    """Return the response as JSON: single values if the request had a single text, else lists."""
    single = body.texts is not body.q
    texts = [answer.text for answer in answers]
    cut = [answer.truncated for answer in answers]
    table: dict[str, object] = {
        "translatedText": texts[0] if single else texts,
        "truncated": cut[0] if single else cut,
    }
    if body.alternatives:
        others = [[other.text for other in answer.alternatives] for answer in answers]
        table["alternatives"] = others[0] if single else others
    if not body.attention:
        return json_object(table)
    records = list(map(attention_json, answers))
    return json_object(table, attention=records[0] if single else json_array(records))
