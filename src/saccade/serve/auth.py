"""Who may ask: the token, the name that the server was called by, and the page that asks."""

import hmac
import ipaddress
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from saccade.errors import ServeError
from saccade.serve.problems import Problem

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANY = ("0.0.0.0", "::")
SHORTEST = 16
AUTHORITY = r"(?P<name>[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?"
HOST = re.compile(AUTHORITY)
ORIGIN = re.compile(rf"https?://(?P<authority>{AUTHORITY})")


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Checks what a request says of itself.

    names   the hosts that it may call the server by; a page elsewhere whose name is made to lead
            here (DNS rebinding) calls it by another
    token   what it must know, if anything
    open    the paths for which it need not: they tell nothing
    """

    names: Collection[str]
    token: str | None = field(default=None, repr=False)
    open: Collection[str] = ()

    @classmethod
    def of(
        cls, host: str, *, token: str | None, names: Collection[str] = (), open: Collection[str]
    ) -> "Guard":
        """For a server at this address; beyond this machine it must have a token."""
        if token is None and not is_loopback(host):
            raise ServeError(
                f"{host} can be reached from other machines, so a token is needed: put one into a "
                "file and give --token-file FILE, or into the environment variable SACCADE_TOKEN"
            )
        if token is not None and (len(token) < SHORTEST or not token.isascii()):
            raise ServeError(f"the token must be {SHORTEST} ASCII characters or more")
        own = () if host in ANY else (host,)
        return cls(
            names={name.lower() for name in (*LOOPBACK, *own, *names)}, token=token, open=open
        )

    def check(self, path: str, headers: Mapping[str, str]) -> None:
        """Refuse a request that does not say what it must."""
        host = headers.get("host", "")
        if _name(host) not in self.names:
            raise Problem("wrong_host", "the Host header names another server; see --allow-host")
        origin = headers.get("origin")
        if origin is not None and _authority(origin) != host.lower():
            raise Problem("wrong_origin", "pages of other origins may not ask")
        if self.token is not None and path not in self.open:
            scheme, _, given = headers.get("authorization", "").partition(" ")
            known = hmac.compare_digest(given.strip().encode(), self.token.encode())
            if scheme.lower() != "bearer" or not known:
                raise Problem("no_token", "give the token, as in: Authorization: Bearer TOKEN")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
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
