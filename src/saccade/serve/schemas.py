"""Schemas of request and response bodies. Fields that are not named here are rejected."""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import BaseModel, ConfigDict, FailFast, Field

from saccade.serve.batcher import GenerationOptions


class FirstError(FailFast):
    """Validate a list up to its first invalid item.

    Unlike `FailFast` itself, it can be used in a union.
    """

    __hash__ = object.__hash__


Text = Annotated[str, MaxLen(2**20)]
Texts = Annotated[list[Text], FirstError()]
Count = Annotated[int, Ge(1)]
Seed = Annotated[int, Ge(0), Le(2**32)]
Temperature = Annotated[float, Ge(0), Le(100)]
TopP = Annotated[float, Ge(1e-6), Le(1)]
Zero = Annotated[float, Ge(0), Le(0)]
ATTENTION = (
    "Also return the attention weights of every layer and head, in the format of a saved attention "
    "record (`AttentionRecord.from_json` reads it)."
)
TEMPERATURE = (
    "Divides the logits before sampling: below 1 sharpens the distribution, above 1 flattens it, 0 "
    "is greedy search. Default: the recipe's value."
)
TOP_P = (
    "Nucleus sampling: sample from the smallest set of tokens whose probabilities sum to this "
    "value. Default: the recipe's value."
)
SPLIT = (
    "`sentences`: the lines of a text, and the sentences of a line that is too long for the model, "
    "are answered one by one and joined. `none`: what is too long is cut. Default: the recipe's "
    "value, usually `sentences`."
)
TRUNCATED = "Whether the input was too long and only a part of it was read"
RECORD = {
    "format": 1,
    "read": {"kind": "text", "tokens": ["▁a", "</s>"], "words": ["a"], "word_of": [0, None]},
    "wrote": {"kind": "text", "tokens": ["▁b", "</s>"], "words": ["b"], "word_of": [0, None]},
    "weights": {"decoder.attention": [[[0.75, 0.25], [0.5, 0.5]]]},
}


class RequestBody(BaseModel):
    """Base of request bodies: values are not converted, unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class PredictRequest(RequestBody):
    """Inputs for a model, and the options of `saccade predict`."""

    model: Text | None = Field(
        None, description="Name of the model. May be omitted if only one model is served."
    )
    inputs: Annotated[list[object], MinLen(1)] = Field(
        description=(
            "Inputs of the kind that the model reads: a text, a list of two texts (`pair`), an "
            "image as base64 or as a data URI, or vectors as a list of lists of numbers or as a "
            ".npy file in base64. Taggers take a text or a list of words."
        ),
        examples=[["my cat sleeps"]],
    )
    attention: bool = Field(default=False, description=ATTENTION)
    beam: Count | None = Field(
        None, description="Beam width; 1 is greedy search. Default: the recipe's value."
    )
    num_best: Count | None = Field(
        None, description="Answers per input, at most the beam width. Default: 1."
    )
    sample: bool | None = Field(
        None,
        description="Sample tokens at random. Implied by temperature, top_k and top_p. Default: "
        "the recipe's value.",
    )
    temperature: Temperature | None = Field(None, description=TEMPERATURE)
    top_k: Annotated[int, Ge(1), Le(10**6)] | None = Field(
        None,
        description="Sample from this many of the most likely tokens. Default: the recipe's value.",
    )
    top_p: TopP | None = Field(None, description=TOP_P)
    max_length: Count | None = Field(
        None, description="Maximum length of an answer, in tokens. Default: the recipe's value."
    )
    seed: Seed | None = Field(
        None,
        description="Random seed of the first input; each further input uses the next integer. "
        "Default: the recipe's value.",
    )
    split: Literal["sentences", "none"] | None = Field(None, description=SPLIT)

    @property
    def options(self) -> GenerationOptions:
        """Options that the request sets, as tasks take them."""
        options = self.model_dump(exclude={"model", "inputs", "attention"}, exclude_none=True)
        samples = {"temperature", "top_k", "top_p"} & options.keys()
        return {"sample": True, **options} if samples else options


class ScoreRequest(RequestBody):
    """Inputs for a model, and an output for each of them that is to be scored."""

    model: Text | None = Field(
        None, description="Name of the model. May be omitted if only one model is served."
    )
    inputs: Annotated[list[object], MinLen(1)] = Field(
        description="Inputs of the kind that the model reads, as in `/v1/predict`.",
        examples=[["my cat sleeps"]],
    )
    outputs: Annotated[Texts, MinLen(1)] = Field(
        description=(
            "One output per input: a text, a label, or tags separated by spaces. For a text with "
            "[MASK], the text with its masks filled."
        ),
        examples=[["mon chien dort"]],
    )
    attention: bool = Field(
        default=False,
        description=(
            f"{ATTENTION} For an output text: where the model looks while it writes this text. For "
            "a label: the attention that speaks for it, each weight times its effect on the "
            "probability of the label."
        ),
    )


class TranslateRequest(RequestBody):
    """Texts for the model that translates between two languages."""

    q: Text | Texts = Field(
        description="Text to translate, or a list of texts.", examples=["my cat sleeps"]
    )
    source: Text = Field(
        description="Code of the source language. It is not detected: `auto` is rejected.",
        examples=["en"],
    )
    target: Text = Field(description="Code of the target language.", examples=["fr"])
    format: Literal["text"] = Field("text", description="Format of the texts: plain text only.")
    alternatives: Annotated[int, Ge(0), Le(100)] = Field(
        0, description="Number of further translations per text."
    )
    api_key: Literal[""] | None = Field(
        None, description="Not supported; send a bearer token instead."
    )
    attention: bool = Field(default=False, description=ATTENTION)
    split: Literal["sentences", "none"] | None = Field(None, description=SPLIT)

    @property
    def texts(self) -> list[str]:
        """Texts to translate, also if it is a single one."""
        return as_list(self.q)


class CompletionRequest(RequestBody):
    """Prompts that a language model continues, in the shape of OpenAI's completions API.

    `best_of` and the penalties are accepted for compatibility, with their neutral values only.
    """

    model: Text = Field(description="Name of a language model.", examples=["book"])
    prompt: Text | Annotated[Texts, MinLen(1), MaxLen(1000)] = Field(
        "",
        description="Text to continue, or a list of texts. An empty text starts a new one.",
        examples=["Once upon a time"],
    )
    max_tokens: Count = Field(16, description="Maximum length of a completion, in tokens.")
    temperature: Temperature | None = Field(None, description=TEMPERATURE)
    top_p: TopP | None = Field(None, description=TOP_P)
    n: Annotated[int, Ge(1), Le(100)] | None = Field(1, description="Completions per prompt.")
    stop: Text | Annotated[Texts, MaxLen(4)] | None = Field(
        None,
        description="Stop sequence, or up to four. A completion ends before the first of them.",
    )
    seed: Seed | None = Field(None, description="Random seed. Default: a random one.")
    stream: bool | None = Field(
        default=False, description="Send the text as server-sent events while it is generated."
    )
    echo: bool | None = Field(default=False, description="Prepend the prompt to the completion.")
    user: Text | None = Field(None, description="Ignored.")
    attention: bool = Field(default=False, description=f"{ATTENTION} Not available with stream.")
    best_of: Annotated[int, Ge(1), Le(1)] | None = Field(1, description="Only 1 is supported.")
    frequency_penalty: Zero | None = Field(0, description="Only 0 is supported.")
    presence_penalty: Zero | None = Field(0, description="Only 0 is supported.")

    @property
    def prompts(self) -> list[str]:
        """Prompts, also if it is a single one."""
        return as_list(self.prompt)

    @property
    def stop_sequences(self) -> list[str]:
        """Stop sequences that are not empty."""
        return [stop for stop in as_list(self.stop or []) if stop]


def as_list(texts: str | list[str]) -> list[str]:
    """Return a list of texts, also for a single text."""
    return [texts] if isinstance(texts, str) else texts


class ResponseBody(BaseModel):
    """Base of response bodies."""

    model_config = ConfigDict(extra="forbid")


class PredictAnswer(ResponseBody):
    """Answers in the order of the inputs."""

    model: str = Field(description="Name of the model.", examples=["en-fr"])
    answers: list[dict[str, object]] = Field(
        description=(
            "One object per input, as `saccade predict --json` prints it. Models that generate "
            "text: `text`, `score` (mean log-probability per token), `confidence` (geometric mean "
            "of the probabilities of its tokens, from 0 to 1), `alternatives`, and for a text that "
            "was split `pieces`, the (start, end) characters of each piece in input and text. "
            "Classifiers: `label`, `score`, `confidence` (probability of the label) and "
            "`probabilities`. Taggers: `spans`, each with `start` and `end` (characters), `label`, "
            "`text` and `probability`, and `words` with their `tags`. All: `truncated`, whether "
            "the input was too long and only a part of it was read. With attention: `attention`, "
            "which is null for an empty input."
        ),
        examples=[
            [{"text": "mon chat dort", "score": -0.07, "confidence": 0.93, "truncated": False}]
        ],
    )


class ScoreAnswer(ResponseBody):
    """Scores in the order of the inputs."""

    model: str = Field(description="Name of the model.", examples=["en-fr"])
    answers: list[dict[str, object]] = Field(
        description=(
            "One object per input: the output as `text`, its `score` (mean log-probability per "
            "token), its `confidence` (geometric mean of the probabilities of its tokens), "
            "`truncated`, whether only a part of the input was read, and `tokens`: for each token, "
            "the end of the text included, its `text` and `probability`, and the most probable "
            "token at its place as `best` and `best_probability`. A label is one token, tags are "
            "one per word. With attention: `attention`, which is null for an empty input."
        ),
        examples=[
            [
                {
                    "text": "mon chien dort",
                    "score": -1.2,
                    "confidence": 0.3,
                    "truncated": False,
                    "tokens": [
                        {
                            "text": "▁chien",
                            "probability": 0.03,
                            "best": "▁chat",
                            "best_probability": 0.95,
                        }
                    ],
                }
            ]
        ],
    )


class TranslateAnswer(ResponseBody):
    """Translation of a text, or of a list of texts."""

    translatedText: str | list[str] = Field(  # noqa: N815
        description="Translation; a list if the request had a list.", examples=["mon chat dort"]
    )
    alternatives: list[str] | list[list[str]] | None = Field(
        None, description="Further translations, if the request asked for some."
    )
    truncated: bool | list[bool] = Field(
        description=f"{TRUNCATED}; a list if the request had a list."
    )
    attention: object = Field(
        None,
        description="Attention record, or a list of them, if the request asked for it.",
        examples=[RECORD],
    )


class Language(ResponseBody):
    """Source language, and the languages it can be translated into."""

    code: str = Field(description="Code of the language.", examples=["en"])
    name: str = Field(description="Name of the language: the code again.", examples=["en"])
    targets: list[str] = Field(description="Codes of the target languages.", examples=[["fr"]])


class Choice(ResponseBody):
    """One completion."""

    index: int = Field(description="Position of the completion, from 0.")
    text: str = Field(description="Generated text.")
    finish_reason: Literal["stop", "length"] | None = Field(
        description=(
            "`stop`: the model ended the text, or a stop sequence was reached. `length`: "
            "max_tokens was reached. null in a stream: more follows."
        )
    )
    logprobs: None = Field(None, description="Not supported.")
    truncated: bool = Field(description=f"{TRUNCATED}: its end.")
    attention: object = Field(
        None, description="Attention record, if the request asked for it.", examples=[RECORD]
    )


class CompletionAnswer(ResponseBody):
    """Completions of the prompts: the `n` completions of the first prompt, then of the second."""

    id: str = Field(description="Random id.", examples=["cmpl-1f0c"])
    object: Literal["text_completion"] = Field(default="text_completion", description="Constant.")
    created: int = Field(description="Unix time of the response, in seconds.")
    model: str = Field(description="Name of the model.")
    choices: list[Choice] = Field(description="Completions.")


class ModelScore(ResponseBody):
    """The score of a model on the validation items of its training."""

    metric: str = Field(description="Name of the metric that matters most.", examples=["bleu"])
    value: float = Field(description="Value of the metric.", examples=[31.4])
    interval: tuple[float, float] | None = Field(description="95 % confidence interval.")
    items: int = Field(description="Number of validation items.", examples=[500])
    text: str = Field(
        description="Score and interval for people.", examples=["BLEU 31.4 [29.9, 32.8]"]
    )


class ModelEntry(ResponseBody):
    """A model that is served."""

    id: str = Field(description="Name of the model in requests.", examples=["en-fr"])
    object: Literal["model"] = Field(default="model", description="Constant.")
    created: int = Field(description="Unix time at which it was loaded, in seconds.")
    owned_by: Literal["saccade"] = Field(default="saccade", description="Constant.")
    task: str = Field(description="Name of its task.", examples=["text_to_text"])
    reads: str = Field(
        description="Kind of its inputs: `text`, `pair`, `image` or `vectors`.", examples=["text"]
    )
    engine: str = Field(
        description="Engine that generates its answers. Streams always use `eager`.",
        examples=["eager"],
    )
    writes: bool = Field(
        description="Whether it generates text, and so takes beam, max_length and sampling options."
    )
    streams: bool = Field(description="Whether it is a language model, for /v1/completions.")
    languages: tuple[str, str] | None = Field(
        description="Source and target language, for /translate."
    )
    score: ModelScore | None = Field(description="Score of the run; null if it has none.")
    trained: str | None = Field(
        description="Day on which its training began.", examples=["2026-01-31"]
    )
    parameters: int | None = Field(description="Number of weights.", examples=[1_200_000])
    examples: list[Any] = Field(
        description="Validation inputs that the run has kept, to try the model with. None if it "
        "was trained with --no-samples, or the server was started with --no-examples.",
        examples=[["my cat sleeps"]],
    )


class ModelList(ResponseBody):
    """All models that are served."""

    object: Literal["list"] = Field(default="list", description="Constant.")
    data: list[ModelEntry] = Field(description="Models, in the order of the command line.")


class ServerStatus(ResponseBody):
    """State of the server."""

    status: Literal["ok", "ready"] = Field(
        description="`ok`: the process runs. `ready`: it accepts requests."
    )
