"""Requests to the API of a team's server; whatever goes wrong is said in words."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from workbench.errors import WorkbenchError
from workbench.team_client.saved_logins import ServerLogin, TeamServerError

ROOT = "/api/v1"
PATIENCE = 60.0
"""Seconds that an answer may take: a planner may have to begin first."""


class ApiConnection:
    """Asks the server of a login. It may be used from any thread."""

    def __init__(self, login: ServerLogin) -> None:
        httpx = _import_httpx()
        self.login = login
        self._httpx = httpx
        headers = {"Authorization": f"Bearer {login.token}", "User-Agent": "sharding-workbench"}
        self._client = httpx.Client(base_url=login.url + ROOT, headers=headers, timeout=PATIENCE)  # and follows no redirect with the token

    def ask(self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """What the server answers. Raises `TeamServerError`."""
        given = {key: _query_text(value) for key, value in (query or {}).items() if value is not None}
        try:
            answer = self._client.request(method, path, json=body, params=given)
        except self._httpx.HTTPError as error:
            raise self._no_answer(error) from None
        try:
            value = answer.json()
        except ValueError:
            raise self._stranger(answer) from None
        if answer.is_success:
            return value
        raise self._refusal(value, answer)

    def ask_all(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """The items of a long list, part by part."""
        cursor = None
        while True:
            part = self.ask("GET", path, query={**(query or {}), "cursor": cursor})
            yield from part["items"]
            cursor = part["next"]
            if cursor is None:
                return

    def close(self) -> None:
        self._client.close()

    def _no_answer(self, error: Exception) -> TeamServerError:
        url = self.login.url
        if isinstance(error, self._httpx.TimeoutException):
            return TeamServerError(f"{url} has not answered for {PATIENCE:.0f} seconds.", ["try again", "ask whoever runs the server"])
        ways_out = ["check the address", "is the server running? `workbench team serve` starts one", "workbench login URL for another"]
        return TeamServerError(f"{url} does not answer: {_in_words(error)}.", ways_out)

    def _stranger(self, answer: Any) -> TeamServerError:
        ways_out = ["check the address, with its path", "is there a sign-in page of a proxy before it?"]
        message = f"{self.login.url} answers (HTTP {answer.status_code}), but not as a team's server of the workbench."
        return TeamServerError(message, ways_out, answer.status_code)

    def _refusal(self, value: Any, answer: Any) -> TeamServerError:
        error = value.get("error") if isinstance(value, dict) else None
        if not isinstance(error, dict) or not isinstance(error.get("message"), str):
            return self._stranger(answer)
        if answer.status_code == 401:
            ways_out = [f"workbench login {self.login.url}", "make a new token on the page of your account"]
            return TeamServerError("The server does not take this token: it has ended, or is not one of its own.", ways_out, 401)
        ways_out = [str(each) for each in error.get("ways_out", ())]
        return TeamServerError(error["message"], ways_out, answer.status_code)


def path_of(*parts: str) -> str:
    """A path within the API, each part as it may stand in an address.

    >>> path_of("projects", "a/b")
    '/projects/a%2Fb'
    """
    return "".join(f"/{quote(each, safe='')}" for each in parts)


def _query_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _in_words(error: Exception) -> str:
    """Why there was no answer; the system's own words, without its number."""
    text = str(error).partition("] ")[2] or str(error) or type(error).__name__
    return text[:1].lower() + text[1:200].rstrip(".")


def _import_httpx() -> Any:
    try:
        import httpx
    except ModuleNotFoundError:
        raise WorkbenchError("A team's server is asked with `httpx`, which is not installed.", ["pip install httpx"]) from None
    return httpx
