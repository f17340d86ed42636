"""The vocabulary of a folder: tokenizer.json, and tokenizer_config.json with its control tokens.

The files that are written put the control tokens around a text by themselves, as the task does.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, processors
from tokenizers import Tokenizer as Backend

from saccade.errors import InteropError
from saccade.tasks import TextInput
from saccade.text import Controls, Tokenizer

TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
TARGET = "target"
"""The folder inside for the vocabulary of the target, if it has one of its own."""

CONTROLS = tuple(field.name for field in fields(Controls))
_THEIR_NAMES = dict(zip(CONTROLS, ("pad", "bos", "eos", "unk", "cls", "sep", "mask"), strict=True))
_USUAL_TEXTS = dict(
    zip(CONTROLS, ("[PAD]", "<s>", "</s>", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), strict=True)
)
# Vocabularies trained by Saccade put a space before every text. For the tokenizers library, the
# parts between typed control tokens are texts, too; the second step is for the first part only.
_SPACE_BEFORE_EACH = {"type": "Prepend", "prepend": " "}
_SPACE_BEFORE_FIRST = {
    "type": "Metaspace",
    "replacement": " ",
    "prepend_scheme": "first",
    "split": False,
}

Json = dict[str, Any]
"""The content of tokenizer.json."""


def read_vocabulary(path: Path, needed: Sequence[str], rows: int) -> Tokenizer:
    """Read the vocabulary of a model with `rows` embeddings and the control tokens it needs."""
    if not path.is_file():
        raise InteropError(
            f"{path.parent} has no {path.name}, which is needed to read text; write it there with "
            "a fast tokenizer of transformers: tokenizer.save_pretrained(folder)"
        )
    tokenizer = Tokenizer.load(path)
    if len(tokenizer) > rows:
        raise InteropError(
            f"{path} has ids up to {len(tokenizer) - 1}, but the model embeds {rows} tokens: they "
            "do not belong together. "
            "Use the tokenizer.json that the model was trained with"
        )
    missing = [name for name in needed if getattr(tokenizer.controls, name) is None]
    if missing:
        raise InteropError(
            f"{path} has no {missing[0]} token under any of its usual names, such as "
            f"{_USUAL_TEXTS[missing[0]]}; add it there and to the model"
        )
    return tokenizer


def puts_space_before(tokenizer: Tokenizer) -> bool:
    """Return whether a tokenizer was trained by Saccade to put a space before every text."""
    return _SPACE_BEFORE_EACH in _steps(json.loads(tokenizer.to_string()), "normalizer")


def with_space_before(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer as it was before `write_vocabulary` changed where it puts a space."""
    content = json.loads(tokenizer.to_string())
    _remove_space(content)
    _steps(content, "normalizer").append(_SPACE_BEFORE_EACH)
    return Tokenizer.from_string(json.dumps(content, ensure_ascii=False))


def with_all_controls(tokenizer: Tokenizer) -> Tokenizer:
    """Add a token at the end for each control that has none, or shares another control's."""
    ids = [getattr(tokenizer.controls, name) for name in CONTROLS]
    missing = [
        _USUAL_TEXTS[name] for i, name in enumerate(CONTROLS) if ids[i] is None or ids[i] in ids[:i]
    ]
    if not missing:
        return tokenizer
    backend = Backend.from_str(tokenizer.to_string())
    backend.add_special_tokens([AddedToken(name, normalized=False) for name in missing])
    return Tokenizer.from_string(backend.to_str())


def token_ids(tokenizer: Tokenizer) -> dict[str, int | None]:
    """Return the ids of the control tokens by their keys in config.json."""
    return {
        f"{key}_token_id": getattr(tokenizer.controls, name) for name, key in _THEIR_NAMES.items()
    }


def write_vocabulary(folder: Path, text: TextInput) -> None:
    """Write both files for texts that are read in this way."""
    tokenizer = text.tokenizer
    content, spaced = json.loads(tokenizer.to_string()), puts_space_before(tokenizer)
    if spaced and (text.masks or text.opening):
        _remove_space(content)
        if text.masks:
            _steps(content, "pre_tokenizer").insert(0, _SPACE_BEFORE_FIRST)
    backend = Backend.from_str(json.dumps(content))
    backend.no_truncation()
    backend.no_padding()
    special = {x.content for x in backend.get_added_tokens_decoder().values() if x.special}
    tokens = {id: token for token, id in backend.get_vocab().items()}
    controls = {
        name: tokens[id]
        for name in CONTROLS
        if (id := getattr(tokenizer.controls, name)) is not None
    }
    if controls.get("unknown") not in special:  # unknown pieces are text, which is not left out
        controls.pop("unknown", None)
    backend.add_special_tokens(
        [
            AddedToken(token, normalized=False, lstrip=spaced and name == "mask")
            for name, token in controls.items()
            if token not in special
        ]
    )
    backend.post_processor = _template(text, tokens)
    segments = ["token_type_ids"] if text.num_segments > 1 else []
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{_THEIR_NAMES[name]}_token": token for name, token in controls.items()},
        "model_max_length": text.max_length,
        "model_input_names": ["input_ids", *segments, "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": not text.masks,
    }
    folder.mkdir(exist_ok=True)
    (folder / TOKENIZER).write_text(backend.to_str(pretty=True), encoding="utf-8")
    readable = json.dumps(config, indent=2, ensure_ascii=False)
    (folder / TOKENIZER_CONFIG).write_text(readable + "\n", encoding="utf-8")


def _template(text: TextInput, tokens: Mapping[int, str]) -> processors.TemplateProcessing:
    """Return the control tokens around a text and around a pair of texts."""
    if text.opening:
        before, special = ["opening"], {"opening": list(text.before)}
    else:
        before = [tokens[id] for id in text.before]
        special = {tokens[id]: [id] for id in text.before}
    after = [tokens[id] for id in text.after]
    special |= {tokens[id]: [id] for id in text.after}
    second = int(text.num_segments > 1)
    single = [f"{piece}:0" for piece in (*before, "$A", *after)]
    return processors.TemplateProcessing(
        single=single,
        pair=[*single, *(f"{piece}:{second}" for piece in ("$B", *after))],
        special_tokens=[
            {"id": name, "ids": ids, "tokens": [tokens[id] for id in ids]}
            for name, ids in special.items()
        ],
    )


def _steps(content: Json, part: str) -> list[Json]:
    """Return the steps of a part of tokenizer.json; empty if it is not a sequence of steps."""
    steps: Json = content.get(part) or {}
    return steps.get("normalizers") or steps.get("pretokenizers") or []


def _remove_space(content: Json) -> None:
    for part, step in (("normalizer", _SPACE_BEFORE_EACH), ("pre_tokenizer", _SPACE_BEFORE_FIRST)):
        steps = _steps(content, part)
        steps[:] = [other for other in steps if other != step]
