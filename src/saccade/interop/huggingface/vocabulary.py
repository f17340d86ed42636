"""The vocabulary of a folder: tokenizer.json, and tokenizer_config.json, which names its controls.

Files that are written put the control tokens around a text by themselves, as the task does.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, processors
from tokenizers import Tokenizer as Backend

from saccade.errors import InteropError
from saccade.text import Controls, Tokenizer

TOKENIZER = "tokenizer.json"
NAMES = "tokenizer_config.json"
TARGET = "target"
"""The folder inside for the vocabulary of the target, where it has one of its own."""

CONTROLS = tuple(field.name for field in fields(Controls))
_THEIRS = dict(zip(CONTROLS, ("pad", "bos", "eos", "unk", "cls", "sep", "mask"), strict=True))
_USUAL = dict(
    zip(CONTROLS, ("[PAD]", "<s>", "</s>", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), strict=True)
)
# Vocabularies trained here put a space before every text. For the library, what stands between
# typed control tokens is a text, too; the second of these steps is for the first of them alone.
_BEFORE_EACH = {"type": "Prepend", "prepend": " "}
_BEFORE_FIRST = {
    "type": "Metaspace",
    "replacement": " ",
    "prepend_scheme": "first",
    "split": False,
}


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What stands around texts when they are read: control tokens, and "A" and "B" for the texts.

    single      around one text, such as ("cls", "A", "sep")
    pair        around two; none where no pairs are read
    segments    whether tokens from "B" on are told apart from those before
    typed       whether control tokens may be typed in a text, as a mask is
    opening     the tokens that "opening" stands for, after which a text goes on
    """

    single: tuple[str, ...]
    pair: tuple[str, ...] = ()
    segments: bool = False
    typed: bool = False
    opening: tuple[int, ...] = ()


def read_vocabulary(path: Path, needed: Sequence[str], rows: int) -> Tokenizer:
    """The vocabulary of a model with `rows` embeddings, and with the control tokens it needs."""
    if not path.is_file():
        raise InteropError(
            f"{path.parent} has no {path.name}, without which no text can be read; write it there "
            "with a fast tokenizer of transformers: tokenizer.save_pretrained(folder)"
        )
    tokenizer = Tokenizer.load(path)
    if len(tokenizer) > rows:
        raise InteropError(
            f"{path} has ids up to {len(tokenizer) - 1}, and the model embeds {rows} tokens: they "
            "do not belong together"
        )
    missing = [name for name in needed if getattr(tokenizer.controls, name) is None]
    if missing:
        raise InteropError(
            f"{path} has no {missing[0]} token by any of its usual names, such as "
            f"{_USUAL[missing[0]]}; add it there and to the model"
        )
    return tokenizer


def puts_space_before(tokenizer: Tokenizer) -> bool:
    """Whether it was trained here to put a space before every text."""
    return _BEFORE_EACH in _steps(json.loads(tokenizer.to_string()), "normalizer")


def with_space_before(tokenizer: Tokenizer) -> Tokenizer:
    """As it was before `write_vocabulary` changed where it puts a space."""
    content = json.loads(tokenizer.to_string())
    _without_space(content)
    _steps(content, "normalizer").append(_BEFORE_EACH)
    return Tokenizer.from_string(json.dumps(content, ensure_ascii=False))


def with_all_controls(tokenizer: Tokenizer) -> Tokenizer:
    """With a token after all others for each control that has none, or only another's."""
    ids = [getattr(tokenizer.controls, name) for name in CONTROLS]
    lacking = [_USUAL[x] for i, x in enumerate(CONTROLS) if ids[i] is None or ids[i] in ids[:i]]
    if not lacking:
        return tokenizer
    backend = Backend.from_str(tokenizer.to_string())
    backend.add_special_tokens([AddedToken(name, normalized=False) for name in lacking])
    return Tokenizer.from_string(backend.to_str())


def token_ids(tokenizer: Tokenizer) -> dict[str, int | None]:
    """The ids of the control tokens as a config.json names them."""
    return {f"{key}_token_id": getattr(tokenizer.controls, name) for name, key in _THEIRS.items()}


def write_vocabulary(folder: Path, tokenizer: Tokenizer, frame: Frame, max_length: int) -> None:
    """Both files; texts of more than `max_length` tokens are cut there if that is asked for."""
    content, spaced = json.loads(tokenizer.to_string()), puts_space_before(tokenizer)
    if spaced and (frame.typed or frame.opening):
        _without_space(content)
        if frame.typed:
            _steps(content, "pre_tokenizer").insert(0, _BEFORE_FIRST)
    backend = Backend.from_str(json.dumps(content))
    backend.no_truncation()
    backend.no_padding()
    special = {x.content for x in backend.get_added_tokens_decoder().values() if x.special}
    entries = {id: text for text, id in backend.get_vocab().items()}
    names = {
        name: entries[id]
        for name in CONTROLS
        if (id := getattr(tokenizer.controls, name)) is not None
    }
    if names.get("unknown") not in special:  # what is unknown is text, which is not left out
        names.pop("unknown", None)
    backend.add_special_tokens(
        [
            AddedToken(text, normalized=False, lstrip=spaced and name == "mask")
            for name, text in names.items()
            if text not in special
        ]
    )
    backend.post_processor = _template(frame, names, entries)
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{_THEIRS[name]}_token": text for name, text in names.items()},
        "model_max_length": max_length,
        "model_input_names": [
            "input_ids",
            *(["token_type_ids"] if frame.segments else []),
            "attention_mask",
        ],
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": not frame.typed,
    }
    folder.mkdir(exist_ok=True)
    (folder / TOKENIZER).write_text(backend.to_str(pretty=True), encoding="utf-8")
    text = json.dumps(about, indent=2, ensure_ascii=False)
    (folder / NAMES).write_text(text + "\n", encoding="utf-8")


def _template(
    frame: Frame, names: Mapping[str, str], entries: Mapping[int, str]
) -> processors.TemplateProcessing:
    def pieces(parts: Sequence[str]) -> list[str]:
        second = parts.index("B") if frame.segments and "B" in parts else len(parts)
        return [
            f"{f'${part}' if part in ('A', 'B') else names.get(part, part)}:{int(i >= second)}"
            for i, part in enumerate(parts)
        ]

    used = {names[part] for part in (*frame.single, *frame.pair) if part in names}
    known = {text: [id] for id, text in entries.items() if text in used}
    if frame.opening:
        known["opening"] = list(frame.opening)
    return processors.TemplateProcessing(
        single=pieces(frame.single),
        pair=pieces(frame.pair or (*frame.single, "B")),
        special_tokens=[
            {"id": name, "ids": ids, "tokens": [entries[id] for id in ids]}
            for name, ids in known.items()
        ],
    )


def _steps(content: Mapping[str, Any], part: str) -> list[Any]:
    """The steps of a part of tokenizer.json, where it is a sequence of some."""
    found = content.get(part) or {}
    return found.get("normalizers") or found.get("pretokenizers") or []


def _without_space(content: Mapping[str, Any]) -> None:
    for part, step in (("normalizer", _BEFORE_EACH), ("pre_tokenizer", _BEFORE_FIRST)):
        steps = _steps(content, part)
        steps[:] = [each for each in steps if each != step]
