"""What requests and answers look like; what is not named here is refused."""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import BaseModel, ConfigDict, FailFast, Field


class FirstError(FailFast):
    """Validate a list up to its first wrong item; unlike the original, it may stand in a union."""

    __hash__ = object.__hash__


Text = Annotated[str, MaxLen(2**20)]
Texts = Annotated[list[Text], FirstError()]
Count = Annotated[int, Ge(1)]
Seed = Annotated[int, Ge(0), Le(2**32)]
Temperature = Annotated[float, Ge(0), Le(100)]
Zero = Annotated[float, Ge(0), Le(0)]
ATTENTION = (
    "Also say where each answer looked: every layer and head, in the form of a saved record."
)
RECORD = {
    "format": 1,
    "read": {"kind": "text", "tokens": ["▁a", "</s>"], "words": ["a"], "word_of": [0, None]},
    "wrote": {"kind": "text", "tokens": ["▁b", "</s>"], "words": ["b"], "word_of": [0, None]},
    "weights": {"decoder.attention": [[[0.75, 0.25], [0.5, 0.5]]]},
}


class Asked(BaseModel):
    """A request: nothing is converted, and nothing unknown is let through."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class PredictRequest(Asked):
    """Inputs for a model. The options are those of `saccade predict`; the recipe's if left out."""

    model: Text | None = Field(None, description="May be left out if there is only one.")
    inputs: Annotated[list[Any], MinLen(1)] = Field(
        description=(
            'By what the model reads: a text; two texts in a list ("pair"); an image as base64.'
        ),
        examples=[["my cat sleeps"]],
    )
    attention: bool = Field(default=False, description=ATTENTION)
    beam: Count | None = None
    num_best: Count | None = Field(None, description="Answers for each input.")
    sample: bool | None = Field(None, description="Draw; also if one of the next three is given.")
    temperature: Temperature | None = None
    top_k: Annotated[int, Ge(1), Le(10**6)] | None = None
    top_p: Annotated[float, Ge(1e-6), Le(1)] | None = None
    max_length: Count | None = Field(None, description="Tokens of an answer.")
    seed: Seed | None = Field(None, description="Of the first input; the next has the next.")

    @property
    def options(self) -> dict[str, Any]:
        """Those that were given, as tasks know them."""
        options = self.model_dump(exclude={"model", "inputs", "attention"}, exclude_none=True)
        drawn = {"temperature", "top_k", "top_p"} & options.keys()
        return {"sample": True, **options} if drawn else options


class TranslateRequest(Asked):
    """A text or several for the model that translates between two languages."""

    q: Text | Texts = Field(description="What to translate.", examples=["my cat sleeps"])
    source: Text = Field(description="Languages are not guessed: no auto.", examples=["en"])
    target: Text = Field(examples=["fr"])
    format: Literal["text"] = "text"
    alternatives: Annotated[int, Ge(0), Le(100)] = Field(0, description="Further answers.")
    api_key: Literal[""] | None = Field(None, description="Send a bearer token instead.")
    attention: bool = Field(default=False, description=ATTENTION)


class CompletionRequest(Asked):
    """A text or several that a language model goes on with.

    Of the fields that change nothing, only the values that change nothing are taken.
    """

    model: Text
    prompt: Text | Annotated[Texts, MinLen(1), MaxLen(1000)] = Field(
        "", examples=["Once upon a time"]
    )
    max_tokens: Count = 16
    temperature: Temperature | None = Field(None, description="0: greedily. The recipe's if null.")
    top_p: Annotated[float, Ge(1e-6), Le(1)] | None = None
    n: Annotated[int, Ge(1), Le(100)] | None = Field(1, description="Texts for each prompt.")
    stop: Text | Annotated[Texts, MaxLen(4)] | None = Field(
        None, description="Ends before the first of these."
    )
    seed: Seed | None = Field(None, description="Drawn if left out.")
    stream: bool | None = Field(default=False, description="Pieces as server-sent events.")
    echo: bool | None = Field(default=False, description="Put the prompt before the text.")
    user: Text | None = Field(None, description="Not looked at.")
    attention: bool = Field(default=False, description=f"{ATTENTION} Not with stream.")
    best_of: Annotated[int, Ge(1), Le(1)] | None = 1
    frequency_penalty: Zero | None = 0
    presence_penalty: Zero | None = 0


class Answered(BaseModel):
    """An answer."""

    model_config = ConfigDict(extra="forbid")


class PredictAnswer(Answered):
    """An answer for each input."""

    model: str = Field(examples=["en-fr"])
    answers: list[dict[str, Any]] = Field(
        description=(
            "As `saccade predict --json` gives them: text, score and alternatives of what writes; "
            "label, score and probabilities of what labels. With attention, the record, or null "
            "for an empty input."
        ),
        examples=[[{"text": "mon chat dort", "score": -0.07}]],
    )


class TranslateAnswer(Answered):
    """A translation, or a list of them if a list was asked for."""

    translatedText: str | list[str] = Field(examples=["mon chat dort"])  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None
    attention: Any = Field(None, examples=[RECORD])


class Language(Answered):
    """A language, and those it can be translated into."""

    code: str = Field(examples=["en"])
    name: str = Field(examples=["en"])
    targets: list[str] = Field(examples=[["fr"]])


class Choice(Answered):
    """One text."""

    index: int
    text: str
    finish_reason: Literal["stop", "length"] | None
    logprobs: None = None
    attention: Any = None


class CompletionAnswer(Answered):
    """Texts that go on from the prompts, the `n` of the first prompt first."""

    id: str = Field(examples=["cmpl-1f0c"])
    object: Literal["text_completion"] = "text_completion"
    created: int = Field(description="Seconds since 1970.")
    model: str
    choices: list[Choice]


class ModelEntry(Answered):
    """A model that is served."""

    id: str = Field(description="What a request calls it.", examples=["en-fr"])
    object: Literal["model"] = "model"
    created: int = Field(description="When it was loaded, in seconds since 1970.")
    owned_by: Literal["saccade"] = "saccade"
    task: str = Field(examples=["text_to_text"])
    reads: str = Field(description='"text", "pair" or "image"', examples=["text"])
    engine: str = Field(
        description="What writes its answers; streams are always eager's.", examples=["eager"]
    )
    writes: bool = Field(description="Whether its answers are texts: it takes beam and the like.")
    streams: bool = Field(description="Whether /v1/completions takes it.")
    languages: tuple[str, str] | None = Field(description="From and to, for /translate.")


class ModelList(Answered):
    """All models that are served."""

    object: Literal["list"] = "list"
    data: list[ModelEntry]


class State(Answered):
    """How the server is."""

    status: Literal["ok", "ready", "ending"]
