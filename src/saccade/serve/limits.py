"""What one request may ask for, and how many may wait."""

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The caps of a server.

    queue          requests of one model that wait or are being answered; more get 429
    rows           inputs that are answered together
    characters     of all texts of a request, and of those answered together
    linger         seconds that an input waits for others to be answered with
    seconds        until a request must be answered
    streams        texts of one model that are written at the same time, piece by piece
    inputs         of one request
    tokens         of an answer, unless the run's own recipe allows more
    beam           and also the most answers for one input
    request_tokens inputs x beam x max_length of one request; one input may always have the largest
                   beam and max_length
    pixels         of all images of a request, and of those answered together
    weights        attention weights of one request, and of those answered together
    json           bytes of a JSON body
    values         items, keys and nested lists of a JSON body, counted before it is parsed
    body           bytes of an upload
    body_seconds   until they must have come
    bodies         bytes of all requests that are being read or answered
    connections    that may be open; half the open files of the process if that is less
    head_seconds   until the headers of a request must have come
    idle_seconds   that a connection may wait for its next request
    stall_seconds  that a client may read nothing of its answer
    grace          seconds that are left to running work when the server is told to end
    """

    queue: int = 128
    rows: int = 64
    characters: int = 50_000
    linger: float = 0.004
    seconds: float = 30.0
    streams: int = 4
    inputs: int = 64
    tokens: int = 512
    beam: int = 16
    request_tokens: int = 131_072
    pixels: int = 50_000_000
    weights: int = 4_000_000
    json: int = MIB
    values: int = 2_000
    body: int = 8 * MIB
    body_seconds: float = 10.0
    bodies: int = 256 * MIB
    connections: int = 1_024
    head_seconds: float = 10.0
    idle_seconds: float = 5.0
    stall_seconds: float = 30.0
    grace: float = 20.0
