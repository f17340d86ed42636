"""JSON as the lens writes it."""

import json
from typing import Any


def readable_json(value: Any) -> str:
    """With letters as they are, save where half a surrogate pair fits in no file."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False)
    return text
