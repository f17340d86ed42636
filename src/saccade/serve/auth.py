"""Authorization of requests: the bearer token, the Host header and the Origin header."""

import hmac
import ipaddress
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from saccade.errors import ServeError
from saccade.serve.problems import Problem

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANY_ADDRESS = ("0.0.0.0", "::")
MIN_TOKEN_LENGTH = 16
AUTHORITY = r"(?P<name>[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?"
HOST = re.compile(AUTHORITY)
ORIGIN = re.compile(rf"https?://(?P<authority>{AUTHORITY})")


@dataclass(frozen=True, kw_only=True)
class Authorization:
    """Check of the Host, Origin and Authorization headers of every request.

    Attributes:
        hosts: Host names and addresses by which clients may call the server. A foreign page whose
            name resolves to this machine (DNS rebinding) uses another name and is rejected.
        token: Bearer token that clients must send. None accepts requests without a token.
        open_paths: Paths that need no token. They reveal nothing about models or users.
    """

    hosts: Collection[str]
    token: str | None = field(default=None, repr=False)
    open_paths: Collection[str] = ()

    @classmethod
    def for_address(
        cls,
        host: str,
        *,
        token: str | None,
        hosts: Collection[str] = (),
        open_paths: Collection[str] = (),
    ) -> "Authorization":
        """Return the authorization of a server that listens at this address.

        Args:
            host: Address the server listens at.
            token: Bearer token, if any.
            hosts: Further host names by which clients may call the server.
            open_paths: Paths that need no token.

        Raises:
            ServeError: The address is reachable from other machines and lacks a token, or the token
                is too short.
        """
        if token is None and not is_loopback(host):
            raise ServeError(
                f"--host {host} is reachable from other machines and needs a token. Put a token "
                "into a file and pass --token-file FILE, or set the environment variable "
                "SACCADE_TOKEN; or use --host 127.0.0.1"
            )
        if token is not None and (len(token) < MIN_TOKEN_LENGTH or not token.isascii()):
            raise ServeError(
                f"the token is too short or not ASCII; expected at least {MIN_TOKEN_LENGTH} ASCII "
                "characters. `openssl rand -hex 16` prints a good one"
            )
        own = () if host in ANY_ADDRESS else (host,)
        names = {name.lower() for name in (*LOOPBACK, *own, *hosts)}
        return cls(hosts=names, token=token, open_paths=open_paths)

    def check(self, path: str, headers: Mapping[str, str]) -> None:
        """Raise a `Problem` unless the headers of a request allow it.

        Args:
            path: Path of the request.
            headers: Its headers, with names in lower case.
        """
        host = headers.get("host", "")
        if _name(host) not in self.hosts:
            raise Problem(
                "wrong_host",
                "the Host header is not a name of this server; use localhost, or start the server "
                "with --allow-host NAME",
            )
        origin = headers.get("origin")
        if origin is not None and _authority(origin) != host.lower():
            raise Problem(
                "wrong_origin",
                "requests from pages of other origins are rejected; send the request from the "
                "server's own page or without an Origin header",
            )
        if self.token is not None and path not in self.open_paths:
            scheme, _, value = headers.get("authorization", "").partition(" ")
            matches = hmac.compare_digest(value.strip().encode(), self.token.encode())
            if scheme.lower() != "bearer" or not matches:
                raise Problem(
                    "no_token",
                    "the token is missing or wrong; send it as: Authorization: Bearer TOKEN",
                )


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _name(host: str) -> str:
    """Return the name or address in a Host header, without the port; empty if it is malformed."""
    match = HOST.fullmatch(host)
    return match["name"].strip("[]").lower() if match else ""


def _authority(origin: str) -> str | None:
    """Return the host and port of an origin; None if it is malformed or has none, such as null."""
    match = ORIGIN.fullmatch(origin)
    return match["authority"].lower() if match else None
