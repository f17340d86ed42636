"""Translation in the shape of LibreTranslate's API: /translate and /languages.

Languages are those of models that were given a name such as en-fr.
"""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from saccade.serve.json_body import StrictRoute
from saccade.serve.models import Models
from saccade.serve.problems import WORK, documented
from saccade.serve.routes.asking import Pieces, listed, record_of, waiting, with_raw, written
from saccade.serve.schemas import Language, TranslateAnswer, TranslateRequest
from saccade.tasks import Answer


def router(models: Models) -> APIRouter:
    """/translate and /languages."""
    routes = APIRouter(route_class=StrictRoute, tags=["translation"])

    @routes.post(
        "/translate",
        response_model=None,
        responses={200: {"model": TranslateAnswer}, **documented(*WORK)},
    )
    async def translate(asked: TranslateRequest, request: Request) -> Response:
        """Translate a text or several."""
        model = models.translator(asked.source, asked.target)
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        options = {"num_best": 1 + asked.alternatives} if asked.alternatives else {}
        found = await model.answers(
            texts, options, waiting(request, model, texts), attention=asked.attention
        )
        return await written(_written(asked, found), found, attention=asked.attention)

    @routes.get("/languages", responses=documented())
    async def languages() -> list[Language]:
        """The languages that can be translated from, and into which."""
        targets: dict[str, list[str]] = {}
        for source, target in filter(None, (model.languages for model in models)):
            targets.setdefault(source, []).append(target)
        return [Language(code=code, name=code, targets=into) for code, into in targets.items()]

    return routes


def _written(asked: TranslateRequest, found: list[Answer]) -> Pieces:
    """One answer or a list of them, as it was asked."""
    single = isinstance(asked.q, str)
    texts = [answer.text for answer in found]
    table: dict[str, object] = {"translatedText": texts[0] if single else texts}
    if asked.alternatives:
        others = [[other.text for other in answer.alternatives] for answer in found]
        table["alternatives"] = others[0] if single else others
    if not asked.attention:
        return with_raw(table)
    records = list(map(record_of, found))
    return with_raw(table, attention=records[0] if single else listed(records))
