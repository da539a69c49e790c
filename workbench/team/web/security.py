"""Which requests a handler refuses before it looks at them, the headers of each of its answers, and where it never leads to."""

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from workbench.app.page.request_policy import judge_request, security_headers
from workbench.team.access import ForbiddenError

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
OWN_SITE = "same-origin"

_FOREIGN = "This server changes nothing for pages of other sites, and a request that changes something says where it is from."
_ADDRESS = "is the server's public address set as people type it?"

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; "
    "style-src 'self' 'unsafe-inline'; "  # widths and colours of drawings are in attributes, as on the board
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""What a page around the boards may load: no inline script at all."""


def page_headers() -> dict[str, str]:
    """The headers of every answer of the server's own handlers.

    Pages say where they are from to this server, and to no other: without that a form of theirs has the origin `null`.
    """
    own = {"Content-Security-Policy": PAGE_POLICY, "Referrer-Policy": "same-origin", "Cache-Control": "no-store"}
    return {**security_headers("", framed=False), **own}


def verify_origin(method: str, headers: Mapping[str, str], own_origins: frozenset[str]) -> None:
    """Raises `ForbiddenError` for a request which another site made a browser send.

    A request that changes something must say that it is from this server's own page: a form of another site may sign somebody in to an
    account that is not theirs, so that this holds of visitors too.
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
    """The address that the nearest proxy wrote, the last of `X-Forwarded-For`: those before it are whatever the visitor said. Empty where
    it wrote none.

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
    """The path, with its query, that `text` names within the server; its first page for anything else.

    Browsers read a backslash as a slash and leave out tabs and line breaks, so `/\\evil.example` and `/\\t/evil.example` are other servers.

    >>> local_path("/room/a?b=c", ""), local_path("//evil.example/", ""), local_path("https://evil.example/", ""), local_path("/a", "/team")
    ('/room/a?b=c', '/', '/', '/team/')
    """
    home = f"{prefix}/"
    if not text.startswith("/") or len(text) > _LONGEST or "\\" in text or any(ord(each) <= 0x20 or ord(each) == 0x7F for each in text):
        return home
    try:
        parts = urlsplit(text)
    except ValueError:
        return home
    is_inside = not (parts.scheme or parts.netloc) and text.startswith(home) and not text.startswith("//") and ".." not in parts.path
    return text if is_inside else home
