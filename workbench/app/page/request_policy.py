"""Access control of the server: requests are checked by their headers before routing; every response has security
headers.

Another site can make the user's browser send requests to this server with an image or script, and after DNS rebinding
even read the response. So host and origin of each request are checked, not only the network address.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import urlsplit

from workbench.errors import WorkbenchError

Hosts = frozenset[str]  # `name:port`
DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
METHODS = ("GET", "HEAD")
SMALL_BODY = 1 << 16
"""Default limit of a request body in bytes; pages and websockets need none."""
MOST_MESSAGE = 4 << 20
"""Limit of a websocket message in bytes, twice the longest plan document as JSON text in a JSON message."""
IDLE_SECONDS, LEAST_BODY_SECONDS, SLOWEST_BODY = 120, 20, 64 << 10
"""Header timeout and minimum body timeout in seconds; minimum upload rate in bytes per second."""
OWN_SITES = ("same-origin", "none")  # `none`: a typed URL, or a bookmark

_FORBIDDEN, _NO_METHOD = 403, 405


def body_seconds(largest: int) -> float:
    """Return the timeout in seconds of a body of up to `largest` bytes.

    >>> body_seconds(SMALL_BODY), body_seconds(100 << 20)
    (21.0, 1620.0)
    """
    return LEAST_BODY_SECONDS + largest / SLOWEST_BODY


@dataclass(frozen=True, slots=True)
class DeniedRequest:
    status: int
    text: str


UNKNOWN_HOST = DeniedRequest(_FORBIDDEN, "This server does not accept this host name. To allow a name: workbench serve --origins NAME:PORT")
UNKNOWN_ORIGIN = DeniedRequest(_FORBIDDEN, "This server rejects pages of other sites. To allow a site: workbench serve --origins NAME:PORT")
NO_ORIGIN = DeniedRequest(_FORBIDDEN, "Only pages of this server may open a websocket.")
OTHER_SITE = DeniedRequest(_FORBIDDEN, "This server cannot be embedded in other sites.")
NO_METHOD = DeniedRequest(_NO_METHOD, "This server accepts GET requests only.")


def judge_request(method: str, headers: Mapping[str, str], path: str, allowed: Hosts | None) -> DeniedRequest | None:
    """Return why a request is denied, or `None`. Without `allowed` hosts every client is trusted."""
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
    """Whether a host is allowed; browsers omit the default port of a scheme."""
    host = host.lower()
    return host in allowed or any(f"{host}:{port}" in allowed for port in set(DEFAULT_PORTS.values()))


def _host_of(origin: str) -> str:
    """Return `name:port` of an origin; empty if invalid, such as `null`, the origin of a sandbox or file."""
    try:
        parts = urlsplit(origin.lower())
        port = parts.port or DEFAULT_PORTS[parts.scheme]
    except (ValueError, KeyError):
        return ""
    return _host_text(parts.hostname or "", port)


def _host_text(name: str, port: int) -> str:
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _is_own_or_followed_link(headers: Mapping[str, str]) -> bool:
    """Whether a request is from this server's page or a followed link; accepted without such headers."""
    if headers.get("Sec-Fetch-Site", "none") in OWN_SITES:
        return True
    return (headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")) == ("navigate", "document")


def allowed_hosts(address: str, port: int, origins: tuple[str, ...]) -> Hosts:
    """Return the allowed hosts of a server. Raises `WorkbenchError` for an invalid origin."""
    local_names = (address.lower(), "localhost", "127.0.0.1", "::1")
    return frozenset(_host_text(name, port) for name in local_names).union(*(parse_origin(origin) for origin in origins))


def verify_origins(origins: tuple[str, ...]) -> None:
    for origin in origins:
        parse_origin(origin)


def parse_origin(text: str) -> Hosts:
    """Parse an origin, `plans.example.org:5006` or with a scheme, into hosts. Raises `WorkbenchError` if invalid.

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
    if not name or extra or unknown or port == 0 or any(character in name for character in "*, \\%"):
        raise _origin_error(text)
    ports = {port} if port else {DEFAULT_PORTS[parts.scheme]} if parts.scheme else set(DEFAULT_PORTS.values())
    return frozenset(_host_text(name, number) for number in ports)


def _origin_error(text: str) -> WorkbenchError:
    return WorkbenchError(
        f"{text[:200]!r} is not an origin: an origin is the host and port of the page.",
        ["write `plans.example.org:5006`, or `https://plans.example.org`", "list each origin: there are no wildcards"],
    )


def security_headers(page: str, *, framed: bool) -> dict[str, str]:
    """Return the headers of every response; `framed` allows framing by pages of the same origin, such as JupyterLab."""
    return {
        "Content-Security-Policy": content_policy(page, framed=framed),
        "X-Frame-Options": "SAMEORIGIN" if framed else "DENY",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",  # links contain whole plans
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }


def content_policy(page: str, *, framed: bool) -> str:
    """Return the content security policy: own files, inline scripts and styles, Panel's modules, `data:` and `blob:`."""
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
    """Return the nonce or SHA-256 of each inline script, so that scripts injected later do not run.

    >>> script_sources("<script>1</script><script nonce='a'>2</script><script src='b.js'></script>")
    ["'nonce-a'", "'sha256-a4ayc/80/OGda4BO/1o/V0etpOqiLx1JwB5S3beHW0s='"]
    """
    scripts = _Scripts()
    scripts.feed(page)
    scripts.close()
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts.texts)
    return sorted({*(f"'nonce-{text}'" for text in scripts.nonces), *(f"'sha256-{text}'" for text in digests)})


class _Scripts(HTMLParser):
    """Collects script nonces, and the texts of inline scripts without one, data excluded."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.nonces: list[str] = []
        self.texts: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "script" and (nonce := attributes.get("nonce")):
            self.nonces.append(nonce)
            return
        self._inside = tag == "script" and "src" not in attributes and attributes.get("type") != "application/json"
        if self._inside:
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[-1] += data.replace("\r\n", "\n")

    def handle_endtag(self, _tag: str) -> None:
        self._inside = False
