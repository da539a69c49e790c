"""`connect(url)`: the projects, plans, jobs and assignments of a team's server.

team = wb.connect("https://plans.example.org")
entry = team.push(plan, project="vision", note="half the traffic")
job = team.submit(entry, steps=100)
for event in job.events():
    print(event["kind"])
again = team.pull(entry.digest)
"""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from workbench.errors import WorkbenchError, wrong_type
from workbench.team_client.records import (
    TeamAssignment,
    TeamJob,
    TeamPlan,
    TeamProject,
    TeamVerdict,
    read_assignment,
    read_job,
    read_plan,
    read_project,
    read_verdict,
)
from workbench.team_client.saved_logins import ServerLogin, TeamServerError, find_login

if TYPE_CHECKING:
    from workbench.plan.plan import Plan
    from workbench.public_plan import Plan as PublicPlan


# Requests to the API of a team's server; whatever goes wrong is said in words.

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
            return TeamServerError(f"{url} has not answered for {PATIENCE:.0f} seconds.", ["try again", "ask the operator of the server"])
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


_DIGEST = 64  # characters
ASKED_EVERY = (0.2, 2.0)
"""Seconds between two questions about a job: at first, and at most."""


class SubmittedJob:
    """A job of the server, which goes on whether or not anybody follows it."""

    def __init__(self, api: ApiConnection, job: TeamJob) -> None:
        self._api = api
        self.id, self.project, self.page = job.id, job.project, job.page

    def __repr__(self) -> str:
        return f"<job {self.id} of {self.project}>"

    def get(self) -> TeamJob:
        """The job as it is now."""
        return read_job(self._api.ask("GET", path_of("jobs", self.id)))

    def events(self, after: int = 0) -> Iterator[Mapping[str, Any]]:
        """Its events from number `after + 1` on, each as it comes, until it has ended. Each has `seq`, `time`, `kind`, and fields by its
        kind, as in the file of `workbench run --events`."""
        pause, longest = ASKED_EVERY
        while True:
            part = self._api.ask("GET", path_of("jobs", self.id, "events"), query={"after": after})
            yield from part["items"]
            if not part["items"] and part["ended"]:
                return
            pause = ASKED_EVERY[0] if part["items"] else min(pause * 1.5, longest)
            after = part["after"]
            if not part["ended"]:
                time.sleep(pause)

    def wait(self, seconds: float | None = None) -> TeamJob:
        """The job when it has ended; raises `TeamServerError` if it has not within these seconds."""
        begun, pause = time.monotonic(), ASKED_EVERY[0]
        while not (job := self.get()).has_ended:
            if seconds is not None and time.monotonic() - begun > seconds:
                raise TeamServerError(f"Job {self.id} is {job.state} after {seconds:g} seconds.", ["wait longer", "`.cancel()` ends it"])
            time.sleep(pause)
            pause = min(pause * 1.5, ASKED_EVERY[1])
        return job

    def cancel(self) -> TeamJob:
        """Ask for it to be ended."""
        return read_job(self._api.ask("POST", path_of("jobs", self.id, "cancellation")))


class TeamClient:
    """A team's server. All methods raise `TeamServerError`, in the server's words where it has some."""

    def __init__(self, api: ApiConnection) -> None:
        self._api = api

    def __repr__(self) -> str:
        return f"<team server {self._api.login.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._api.close()

    @property
    def url(self) -> str:
        return self._api.login.url

    def me(self) -> Mapping[str, Any]:
        """Who one is there."""
        found: Mapping[str, Any] = self._api.ask("GET", "/me")
        return found

    def projects(self) -> tuple[TeamProject, ...]:
        """The projects that one is in."""
        return tuple(map(read_project, self._api.ask("GET", "/projects")["items"]))

    def plans(self, project: str | None = None, *, limit: int = 1000, **filters: Any) -> tuple[TeamPlan, ...]:
        """The plans of one's projects, or of one; the newest first. Filters are those of the gallery: `q`, `model`, `mesh`, `hardware`,
        `dimension`, `author`, `tier`, `fits`, `digest`."""
        path = path_of("projects", project, "plans") if project else "/plans"
        found = self._api.ask_all(path, {"limit": min(limit, 100), **filters})
        return tuple(read_plan(record) for _, record in zip(range(limit), found, strict=False))

    def push(self, plan: "Plan | str", project: str | None = None, *, name: str | None = None, note: str | None = None) -> TeamPlan:
        """Put a plan, or the text of a plan document, into a gallery; into that of one's own project, unless another is named."""
        body = {"document": _text_of(plan), **({"name": name} if name else {}), **({"note": note} if note is not None else {})}
        return read_plan(self._api.ask("POST", path_of("projects", project or self._own_project(), "plans"), body))

    def document(self, plan: str) -> str:
        """The document of a plan, by its digest or an entry's id."""
        path = path_of("documents", plan) if len(plan) == _DIGEST else path_of("entries", plan, "document")
        text: str = self._api.ask("GET", path)["document"]
        return text

    def pull(self, plan: str, allow: str | tuple[str, ...] = ()) -> "PublicPlan":
        """A plan by its digest or an entry's id; `allow` as in `wb.load`. Raises `DocumentError`, too."""
        from workbench.documents import parse_plan
        from workbench.public_plan import as_public

        return as_public(parse_plan(self.document(plan), f"The plan {plan[:12]}", allow))

    def submit(
        self, plan: "TeamPlan | Plan | str", project: str | None = None, *, kind: str = "run", engine: str = "here", **wanted: Any
    ) -> SubmittedJob:
        """Run a plan, or compile it, where the team's devices are. A plan is pushed first; a text is a digest or an entry's id.
        `wanted` are `steps`, `check`, `hosts`, `processes` (of each host), `minutes`, `memory` (bytes of a process), `environment`,
        `options` (of the engine)."""
        if not isinstance(plan, TeamPlan | str):
            plan = self.push(plan, project)
        named, slug = (plan.id, project or plan.project) if isinstance(plan, TeamPlan) else (plan, project or self._own_project())
        body = {"plan": named, "kind": kind, "engine": engine, **{key: value for key, value in wanted.items() if value is not None}}
        return SubmittedJob(self._api, read_job(self._api.ask("POST", path_of("projects", slug, "jobs"), body)))

    def jobs(self, project: str | None = None, *, limit: int = 100, **filters: Any) -> tuple[TeamJob, ...]:
        """The jobs of a project, the newest first; filters are `state`, `author` and `digest`."""
        found = self._api.ask_all(path_of("projects", project or self._own_project(), "jobs"), {"limit": min(limit, 100), **filters})
        return tuple(read_job(record) for _, record in zip(range(limit), found, strict=False))

    def job(self, job_id: str) -> SubmittedJob:
        """A job by its id."""
        return SubmittedJob(self._api, read_job(self._api.ask("GET", path_of("jobs", job_id))))

    def assignments(self, project: str) -> tuple[TeamAssignment, ...]:
        """The assignments of a class, the newest first."""
        return tuple(map(read_assignment, self._api.ask("GET", path_of("projects", project, "assignments"))["items"]))

    def hand_out(self, exercise: str, project: str, **chosen: Any) -> TeamAssignment:
        """Hand the text of an exercise's document to a class. `chosen` are `name`, `deadline` ("2026-12-01T23:59") in the time zone `zone`,
        `size` (students who work together, at most) and `ranked` (the question whose plans are ranked)."""
        body = {"exercise": exercise, **{key: value for key, value in chosen.items() if value is not None}}
        return read_assignment(self._api.ask("POST", path_of("projects", project, "assignments"), body))

    def begin(self, assignment: str, *partners: str) -> str:
        """Begin an assignment, alone or with colleagues by their names; the address of the room."""
        address: str = self._api.ask("POST", path_of("assignments", assignment, "submissions"), {"partners": list(partners)})["page"]
        return address

    def hand_in(self, assignment: str, question: str, answer: "Plan | str") -> TeamVerdict:
        """Answer a question of an assignment that one has begun: with a plan, the text of its document, or a number or choice."""
        body = {"question": question, "answer": _text_of(answer)}
        return read_verdict(self._api.ask("POST", path_of("assignments", assignment, "answers"), body))

    def send_plan(self, assignment: str, student: str = "", question: str = "") -> int:
        """Send a plan onto the boards of all who have no right answer yet, to this question or to one of those about a plan; the number of
        boards. It is the present plan of a student, by name, or the one that the assignment begins with."""
        place = path_of("assignments", assignment)
        work = self._work_of(place, student) if student else ""
        sent: int = self._api.ask("POST", f"{place}/boards", {"work": work, "question": question})["sent"]
        return sent

    def _work_of(self, place: str, student: str) -> str:
        """The room in which somebody works on an assignment."""
        for each in self._api.ask("GET", f"{place}/submissions")["items"]:
            if student in [one["name"] for one in each["people"]]:
                return str(each["room"])
        raise TeamServerError(f"`{student}` has not begun this assignment.", ["look at its wall"])

    def _own_project(self) -> str:
        """One's own project, or the only one that one is in."""
        found = self.projects()
        own = [each.slug for each in found if each.personal] or ([found[0].slug] if len(found) == 1 else [])
        if not own:
            names = ", ".join(f"`{each.slug}`" for each in found) or "none"
            raise TeamServerError(f"No project is named, and you have none of your own; you are in {names}.", ["name one: project=..."])
        return own[0]


def connect(url: str | None = None, token: str | None = None) -> TeamClient:
    """A team's server: at `url`, else the one of `WORKBENCH_SERVER`, else of `workbench login`; so the token. Nothing is asked yet."""
    return TeamClient(ApiConnection(find_login(url, token)))


def _text_of(plan: "Plan | str") -> str:
    if isinstance(plan, str):
        return plan
    from workbench.documents import dump_plan
    from workbench.plan.plan import Plan

    if not isinstance(plan, Plan):
        raise TeamServerError(wrong_type("plan", plan, "a plan, or the text of a plan document"), ["push(plan)"])
    return dump_plan(plan)
