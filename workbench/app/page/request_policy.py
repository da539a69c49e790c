"""Access control of the server: a request is checked by its headers before it is routed, and every response has security headers.

A page on another site that the user happens to visit can make the browser send requests to this server, with an image or a script, and
after DNS rebinding even read the response: so the request's host and origin are checked, not only who may connect.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import urlsplit

from workbench.errors import WorkbenchError

Hosts = frozenset[str]  # of the form `name:port`
DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
METHODS = ("GET", "HEAD")
SMALL_BODY = 1 << 16
"""Bytes of the largest body of a request, unless its handler reads more: a page and its websocket need none."""
MOST_MESSAGE = 4 << 20
"""Bytes of the largest message on a websocket: the longest plan document, as JSON text in a JSON message, has half."""
IDLE_SECONDS, LEAST_BODY_SECONDS, SLOWEST_BODY = 120, 20, 64 << 10
"""Header timeout and minimum body timeout in seconds; minimum upload rate in bytes per second."""
OWN_SITES = ("same-origin", "none")  # `none`: a typed URL, or a bookmark

_FORBIDDEN, _NO_METHOD = 403, 405


def body_seconds(largest: int) -> float:
    """The timeout of a body of up to `largest` bytes.

    >>> body_seconds(SMALL_BODY), body_seconds(100 << 20)
    (21.0, 1620.0)
    """
    return LEAST_BODY_SECONDS + largest / SLOWEST_BODY


@dataclass(frozen=True, slots=True)
class DeniedRequest:
    """The response to a request that is denied."""

    status: int
    text: str


UNKNOWN_HOST = DeniedRequest(
    _FORBIDDEN,
    "This server does not accept this host name. To allow a name: workbench serve --origins NAME:PORT",
)
UNKNOWN_ORIGIN = DeniedRequest(
    _FORBIDDEN,
    "This server does not accept pages of other sites. To allow a site: workbench serve --origins NAME:PORT",
)
NO_ORIGIN = DeniedRequest(_FORBIDDEN, "Only pages of this server may open a websocket.")
OTHER_SITE = DeniedRequest(_FORBIDDEN, "This server cannot be embedded in other sites.")
NO_METHOD = DeniedRequest(_NO_METHOD, "This server accepts GET requests only.")


def judge_request(method: str, headers: Mapping[str, str], path: str, allowed: Hosts | None) -> DeniedRequest | None:
    """Why a request is denied, or `None`. Without `allowed` hosts every client that can connect is trusted to have the right one, as with a
    Unix socket."""
    if method not in METHODS:
        return NO_METHOD
    if allowed is not None and not _is_allowed_host(headers.get("Host", ""), allowed):
        return UNKNOWN_HOST
    origin = headers.get("Origin")
    if allowed is not None and origin is not None and _host_of(origin) not in allowed:
        return UNKNOWN_ORIGIN
    if path.endswith("/ws") or headers.get("Upgrade", "").lower() == "websocket":
        return NO_ORIGIN if allowed is not None and origin is None else None
    return None if _is_own_or_followed_link(headers) else OTHER_SITE


def _is_allowed_host(host: str, allowed: Hosts) -> bool:
    """A browser leaves out the port that is its scheme's default."""
    host = host.lower()
    return host in allowed or any(f"{host}:{port}" in allowed for port in set(DEFAULT_PORTS.values()))


def _host_of(origin: str) -> str:
    """`name:port` of an origin; empty for an invalid one, such as `null`, the origin of a sandbox or a file."""
    try:
        parts = urlsplit(origin.lower())
        port = parts.port or DEFAULT_PORTS[parts.scheme]
    except (ValueError, KeyError):
        return ""
    return _host_text(parts.hostname or "", port)


def _host_text(name: str, port: int) -> str:
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _is_own_or_followed_link(headers: Mapping[str, str]) -> bool:
    """Whether the request is from this server's own page, or a link that the user followed. Requests that do not say are accepted."""
    if headers.get("Sec-Fetch-Site", "none") in OWN_SITES:
        return True
    return (headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")) == ("navigate", "document")


def allowed_hosts(address: str, port: int, origins: tuple[str, ...]) -> Hosts:
    """The hosts of a server at an address. Raises `WorkbenchError` for an invalid origin."""
    local_names = (address.lower(), "localhost", "127.0.0.1", "::1")
    return frozenset(_host_text(name, port) for name in local_names).union(*(parse_origin(each) for each in origins))


def verify_origins(origins: tuple[str, ...]) -> None:
    """Raises `WorkbenchError` for an invalid origin."""
    for each in origins:
        parse_origin(each)


def parse_origin(text: str) -> Hosts:
    """The hosts of an origin as a person writes it: `plans.example.org:5006`, or with a scheme. Raises `WorkbenchError` for an invalid one.

    >>> sorted(parse_origin("https://plans.example.org/")), sorted(parse_origin("[::1]:80"))
    (['plans.example.org:443'], ['[::1]:80'])
    >>> sorted(parse_origin("plans.example.org"))
    ['plans.example.org:443', 'plans.example.org:80']
    """
    written = text.strip().lower()
    try:
        parts = urlsplit(written if "://" in written else f"//{written}")
        name, port = parts.hostname, parts.port
    except ValueError:
        raise _origin_error(text) from None
    extra = parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None
    unknown = parts.scheme not in ("", *DEFAULT_PORTS)
    if not name or extra or unknown or port == 0 or any(each in name for each in "*, \\%"):
        raise _origin_error(text)
    ports = {port} if port else {DEFAULT_PORTS[parts.scheme]} if parts.scheme else set(DEFAULT_PORTS.values())
    return frozenset(_host_text(name, each) for each in ports)


def _origin_error(text: str) -> WorkbenchError:
    return WorkbenchError(
        f"{text[:200]!r} is not an origin: an origin is the host and port of the page.",
        ["write `plans.example.org:5006`, or `https://plans.example.org`", "list each origin: there are no wildcards"],
    )


def security_headers(page: str, *, framed: bool) -> dict[str, str]:
    """The headers of every response; `framed` if pages of the same origin may frame it, as JupyterLab does."""
    return {
        "Content-Security-Policy": content_policy(page, framed=framed),
        "X-Frame-Options": "SAMEORIGIN" if framed else "DENY",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",  # links contain whole plans
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }


def content_policy(page: str, *, framed: bool) -> str:
    """What a page may load: this server's own files, its inline scripts, and modules that Panel makes from the board's text.

    Styles are in elements and attributes throughout Bokeh and the board; pictures are drawn as `data:` and `blob:`.
    """
    scripts = " ".join(["'self'", "blob:", *script_sources(page)])
    ancestors = "'self'" if framed else "'none'"
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {scripts}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self' blob:",
            "base-uri 'none'",
            "form-action 'none'",
            f"frame-ancestors {ancestors}",
        ]
    )


def script_sources(page: str) -> list[str]:
    """The inline scripts of a page, by nonce or by SHA-256: only those run, and none that is written into it later.

    >>> script_sources("<script>1</script><script nonce='a'>2</script><script src='b.js'></script>")
    ["'nonce-a'", "'sha256-a4ayc/80/OGda4BO/1o/V0etpOqiLx1JwB5S3beHW0s='"]
    """
    found = _Scripts()
    found.feed(page)
    found.close()
    digests = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in found.texts)
    return sorted({*(f"'nonce-{each}'" for each in found.nonces), *(f"'sha256-{each}'" for each in digests)})


class _Scripts(HTMLParser):
    """Collects the nonces of scripts, and the texts of those that have none and no `src`, and are no data."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.nonces: list[str] = []
        self.texts: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "script" and (nonce := given.get("nonce")):
            self.nonces.append(nonce)
            return
        self._inside = tag == "script" and "src" not in given and given.get("type") != "application/json"
        if self._inside:
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[-1] += data.replace("\r\n", "\n")

    def handle_endtag(self, _tag: str) -> None:
        self._inside = False
