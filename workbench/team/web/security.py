"""Origin checks, security headers, and safe redirect targets."""

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from workbench.app.page.request_policy import judge_request, security_headers
from workbench.team.access import ForbiddenError

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
OWN_SITE = "same-origin"

_FOREIGN = "The server rejects changes from pages of other sites and changes without an `Origin`."
_ADDRESS = "check that the public address of the server is the one in the browser"

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; "
    "style-src 'self' 'unsafe-inline'; "  # drawings set widths and colours in attributes, as on the board
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Content security policy of pages around the boards: no inline scripts."""


def page_headers() -> dict[str, str]:
    """Return the headers of all responses. Without this referrer policy, forms would have the origin `null`."""
    headers = {"Content-Security-Policy": PAGE_POLICY, "Referrer-Policy": "same-origin", "Cache-Control": "no-store"}
    return {**security_headers("", framed=False), **headers}


def verify_origin(method: str, headers: Mapping[str, str], own_origins: frozenset[str]) -> None:
    """Raise `ForbiddenError` for a request that another site made a browser send.

    State-changing requests must come from this server's own pages, also without a login: another site's form could sign
    a visitor in to a foreign account.
    """
    if method in SAFE_METHODS:
        refusal = judge_request("GET", headers, "", None)
        if refusal:
            raise ForbiddenError(refusal.text, ["open the page by itself"])
        return
    origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site")
    is_own = origin.lower() in own_origins if origin is not None else site == OWN_SITE
    if not is_own or site not in (None, OWN_SITE):
        raise ForbiddenError(_FOREIGN, ["use the server's own pages", "send a token: `Authorization: Bearer ...`", _ADDRESS])


def forwarded_address(given: str) -> str:
    """Return the last address in `X-Forwarded-For`, written by the nearest proxy; earlier ones are the client's claim.
    Empty without one.

    >>> forwarded_address("198.51.100.7, 192.0.2.1"), forwarded_address("unknown"), forwarded_address("")
    ('192.0.2.1', '', '')
    """
    last = given.rpartition(",")[2].strip()
    try:
        return str(ip_address(last))
    except ValueError:
        return ""


_LONGEST = 2000


def local_path(text: str, prefix: str) -> str:
    r"""Return `text` if it is a path within the server, else the first page. Browsers read a backslash as a slash and
    drop tabs and line breaks, so `/\evil.example` and `/\t/evil.example` are other servers.

    >>> local_path("/room/a?b=c", ""), local_path("//evil.example/", ""), local_path("https://evil.example/", ""), local_path("/a", "/team")
    ('/room/a?b=c', '/', '/', '/team/')
    """
    home = f"{prefix}/"
    if not text.startswith("/") or len(text) > _LONGEST or "\\" in text or any(ord(char) <= 0x20 or ord(char) == 0x7F for char in text):
        return home
    try:
        parts = urlsplit(text)
    except ValueError:
        return home
    is_inside = not (parts.scheme or parts.netloc) and text.startswith(home) and not text.startswith("//") and ".." not in parts.path
    return text if is_inside else home
