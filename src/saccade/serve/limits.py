"""Limits on what one request may ask for, and on how many requests may wait."""

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class RequestLimits:
    """Limits of a server.

    Attributes:
        queue: Requests per model that wait or are being answered. Further ones get status 429.
        batch_size: Inputs answered together.
        characters: Characters of all texts of a request, and of all texts in a batch.
        linger_seconds: Seconds that an input waits for others to be batched with.
        timeout: Seconds until a request must be answered.
        streams: Texts per model that are streamed at the same time.
        inputs: Inputs per request.
        max_length: Tokens of an answer. A recipe's own larger value is always allowed.
        max_beam: Beam width, and the number of answers per input. A recipe's own larger values are
            always allowed.
        request_tokens: Inputs x beam x max_length of a request. A single input may always use the
            largest beam and max_length.
        pixels: Pixels of all images of a request, and of all images in a batch.
        weights: Attention weights of a request, and of a batch.
        json_bytes: Bytes of a JSON body.
        json_values: Items, keys and nested lists of a JSON body, counted before it is parsed.
        upload_bytes: Bytes of a multipart upload.
        body_seconds: Seconds until the complete body must have arrived.
        total_bytes: Bytes of all request bodies that are being read or answered.
        connections: Open connections. Half of the process's file limit applies if it is lower.
        head_seconds: Seconds until the headers of a request must have arrived.
        idle_seconds: Seconds that a connection may stay open without a request.
        stall_seconds: Seconds that a client may leave its response unread.
        grace_seconds: Seconds that running requests get to finish when the server stops.
    """

    queue: int = 128
    batch_size: int = 64
    characters: int = 50_000
    linger_seconds: float = 0.004
    timeout: float = 30.0
    streams: int = 4
    inputs: int = 64
    max_length: int = 512
    max_beam: int = 16
    request_tokens: int = 131_072
    pixels: int = 50_000_000
    weights: int = 4_000_000
    json_bytes: int = MIB
    json_values: int = 2_000
    upload_bytes: int = 8 * MIB
    body_seconds: float = 10.0
    total_bytes: int = 256 * MIB
    connections: int = 1_024
    head_seconds: float = 10.0
    idle_seconds: float = 5.0
    stall_seconds: float = 30.0
    grace_seconds: float = 20.0
