"""Addresses within the server, and what is never followed: an address that leads out of it."""

from urllib.parse import urlsplit

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
