"""`connect(url)`: projects, plans, jobs and assignments of a team server.

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


# API requests; every failure is a `TeamServerError`.

ROOT = "/api/v1"
PATIENCE = 60.0
"""Timeout of a request in seconds: the server may have to start a planner first."""


class ApiConnection:
    """HTTP connection to the API of a team server, with a user's token. Thread-safe."""

    def __init__(self, login: ServerLogin) -> None:
        httpx = _import_httpx()
        self.login = login
        self._httpx = httpx
        headers = {"Authorization": f"Bearer {login.token}", "User-Agent": "sharding-workbench"}
        self._client = httpx.Client(
            base_url=login.url + ROOT, headers=headers, timeout=PATIENCE
        )  # follows no redirects: they would receive the token

    def ask(self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        params = {key: _query_text(value) for key, value in (query or {}).items() if value is not None}
        try:
            response = self._client.request(method, path, json=body, params=params)
        except self._httpx.HTTPError as error:
            raise self._no_answer(error) from None
        try:
            value = response.json()
        except ValueError:
            raise self._stranger(response) from None
        if response.is_success:
            return value
        raise self._refusal(value, response)

    def ask_all(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[Any]:
        cursor = None
        while True:
            page = self.ask("GET", path, query={**(query or {}), "cursor": cursor})
            yield from page["items"]
            cursor = page["next"]
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
        ways_out = ["check the address, with its path", "check for a sign-in page of a proxy in front of it"]
        message = f"{self.login.url} answers (HTTP {answer.status_code}), but it is not a team server of the workbench."
        return TeamServerError(message, ways_out, answer.status_code)

    def _refusal(self, value: Any, answer: Any) -> TeamServerError:
        error = value.get("error") if isinstance(value, dict) else None
        if not isinstance(error, dict) or not isinstance(error.get("message"), str):
            return self._stranger(answer)
        if answer.status_code == 401:
            ways_out = [f"workbench login {self.login.url}", "create a new token on your account page"]
            return TeamServerError("The server rejected the token: it has expired, or belongs to another server.", ways_out, 401)
        ways_out = [str(hint) for hint in error.get("ways_out", ())]
        return TeamServerError(error["message"], ways_out, answer.status_code)


def path_of(*parts: str) -> str:
    """Build an API path from unescaped parts.

    >>> path_of("projects", "a/b")
    '/projects/a%2Fb'
    """
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _query_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _in_words(error: Exception) -> str:
    text = str(error).partition("] ")[2] or str(error) or type(error).__name__
    return text[:1].lower() + text[1:200].rstrip(".")


def _import_httpx() -> Any:
    try:
        import httpx
    except ModuleNotFoundError:
        raise WorkbenchError("Team servers need `httpx`, which is not installed.", ["pip install httpx"]) from None
    return httpx


_DIGEST = 64  # characters
ASKED_EVERY = (0.2, 2.0)
"""Seconds between polls of a job: initial and maximum."""


class SubmittedJob:
    """A job on the server, which runs independently of this client."""

    def __init__(self, api: ApiConnection, job: TeamJob) -> None:
        self._api = api
        self.id, self.project, self.page = job.id, job.project, job.page

    def __repr__(self) -> str:
        return f"<job {self.id} of {self.project}>"

    def get(self) -> TeamJob:
        return read_job(self._api.ask("GET", path_of("jobs", self.id)))

    def events(self, after: int = 0) -> Iterator[Mapping[str, Any]]:
        """Yield events after a number until the job ends, with fields as in `workbench run --events`."""
        pause, longest = ASKED_EVERY
        while True:
            page = self._api.ask("GET", path_of("jobs", self.id, "events"), query={"after": after})
            yield from page["items"]
            if not page["items"] and page["ended"]:
                return
            pause = ASKED_EVERY[0] if page["items"] else min(pause * 1.5, longest)
            after = page["after"]
            if not page["ended"]:
                time.sleep(pause)

    def wait(self, seconds: float | None = None) -> TeamJob:
        """Wait until the job ends, and return it. Raises `TeamServerError` after `seconds`."""
        start, pause = time.monotonic(), ASKED_EVERY[0]
        while not (job := self.get()).has_ended:
            if seconds is not None and time.monotonic() - start > seconds:
                raise TeamServerError(f"Job {self.id} is {job.state} after {seconds:g} seconds.", ["wait longer", "`.cancel()` ends it"])
            time.sleep(pause)
            pause = min(pause * 1.5, ASKED_EVERY[1])
        return job

    def cancel(self) -> TeamJob:
        return read_job(self._api.ask("POST", path_of("jobs", self.id, "cancellation")))


class TeamClient:
    """A client of a team server. All methods raise `TeamServerError`, with the server's message where there is one."""

    def __init__(self, api: ApiConnection) -> None:
        self._api = api

    def __repr__(self) -> str:
        return f"<team server {self._api.login.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._api.close()

    @property
    def url(self) -> str:
        return self._api.login.url

    def me(self) -> Mapping[str, Any]:
        user: Mapping[str, Any] = self._api.ask("GET", "/me")
        return user

    def projects(self) -> tuple[TeamProject, ...]:
        return tuple(map(read_project, self._api.ask("GET", "/projects")["items"]))

    def plans(self, project: str | None = None, *, limit: int = 1000, **filters: Any) -> tuple[TeamPlan, ...]:
        """Return the plans of one project or of all your projects, newest first. Filters are those of the gallery: `q`,
        `model`, `mesh`, `hardware`, `dimension`, `author`, `tier`, `fits`, `digest`.
        """
        path = path_of("projects", project, "plans") if project else "/plans"
        records = self._api.ask_all(path, {"limit": min(limit, 100), **filters})
        return tuple(read_plan(record) for _, record in zip(range(limit), records, strict=False))

    def push(self, plan: "Plan | str", project: str | None = None, *, name: str | None = None, note: str | None = None) -> TeamPlan:
        """Add a plan, or the text of a plan document, to a project's gallery, by default to your personal project."""
        body = {"document": _text_of(plan), **({"name": name} if name else {}), **({"note": note} if note is not None else {})}
        return read_plan(self._api.ask("POST", path_of("projects", project or self._own_project(), "plans"), body))

    def document(self, plan: str) -> str:
        """Return a plan document, by plan digest or entry ID."""
        path = path_of("documents", plan) if len(plan) == _DIGEST else path_of("entries", plan, "document")
        text: str = self._api.ask("GET", path)["document"]
        return text

    def pull(self, plan: str, allow: str | tuple[str, ...] = ()) -> "PublicPlan":
        """Load a plan by digest or entry ID; `allow` as in `wb.load`. Also raises `DocumentError`."""
        from workbench.documents import parse_plan
        from workbench.public_plan import as_public

        return as_public(parse_plan(self.document(plan), f"The plan {plan[:12]}", allow))

    def submit(
        self, plan: "TeamPlan | Plan | str", project: str | None = None, *, kind: str = "run", engine: str = "here", **wanted: Any
    ) -> SubmittedJob:
        """Run or compile a plan on the team's devices.

        A plan object is pushed first; a string is a plan digest or entry ID. `wanted` may have `steps`, `check`,
        `hosts`, `processes` (per host), `minutes`, `memory` (bytes per process), `environment`, and `options` (of the
        engine).
        """
        if not isinstance(plan, TeamPlan | str):
            plan = self.push(plan, project)
        plan_id, slug = (plan.id, project or plan.project) if isinstance(plan, TeamPlan) else (plan, project or self._own_project())
        body = {"plan": plan_id, "kind": kind, "engine": engine, **{key: value for key, value in wanted.items() if value is not None}}
        return SubmittedJob(self._api, read_job(self._api.ask("POST", path_of("projects", slug, "jobs"), body)))

    def jobs(self, project: str | None = None, *, limit: int = 100, **filters: Any) -> tuple[TeamJob, ...]:
        """Return the jobs of a project, newest first. Filters are `state`, `author` and `digest`."""
        records = self._api.ask_all(path_of("projects", project or self._own_project(), "jobs"), {"limit": min(limit, 100), **filters})
        return tuple(read_job(record) for _, record in zip(range(limit), records, strict=False))

    def job(self, job_id: str) -> SubmittedJob:
        return SubmittedJob(self._api, read_job(self._api.ask("GET", path_of("jobs", job_id))))

    def assignments(self, project: str) -> tuple[TeamAssignment, ...]:
        return tuple(map(read_assignment, self._api.ask("GET", path_of("projects", project, "assignments"))["items"]))

    def hand_out(self, exercise: str, project: str, **chosen: Any) -> TeamAssignment:
        """Assign an exercise document to a class.

        `chosen` may have `name`, `deadline` ("2026-12-01T23:59") in the time zone `zone`, `size` (maximum number of
        students who work together) and `ranked` (the question whose plans are ranked).
        """
        body = {"exercise": exercise, **{key: value for key, value in chosen.items() if value is not None}}
        return read_assignment(self._api.ask("POST", path_of("projects", project, "assignments"), body))

    def begin(self, assignment: str, *partners: str) -> str:
        """Start an assignment, alone or with named partners, and return the URL of its room."""
        address: str = self._api.ask("POST", path_of("assignments", assignment, "submissions"), {"partners": list(partners)})["page"]
        return address

    def hand_in(self, assignment: str, question: str, answer: "Plan | str") -> TeamVerdict:
        """Answer a question of a started assignment with a plan, the text of a plan document, a number or a choice."""
        body = {"question": question, "answer": _text_of(answer)}
        return read_verdict(self._api.ask("POST", path_of("assignments", assignment, "answers"), body))

    def send_plan(self, assignment: str, student: str = "", question: str = "") -> int:
        """Send a plan to the boards of all students without a right answer yet, and return the number of boards.

        The plan is a student's current one, or the assignment's initial plan. Without `question`, all questions about a
        plan count.
        """
        place = path_of("assignments", assignment)
        work = self._work_of(place, student) if student else ""
        sent: int = self._api.ask("POST", f"{place}/boards", {"work": work, "question": question})["sent"]
        return sent

    def _work_of(self, place: str, student: str) -> str:
        for submission in self._api.ask("GET", f"{place}/submissions")["items"]:
            if student in [person["name"] for person in submission["people"]]:
                return str(submission["room"])
        raise TeamServerError(f"`{student}` has not started this assignment.", ["look at its wall"])

    def _own_project(self) -> str:
        memberships = self.projects()
        slugs = [project.slug for project in memberships if project.personal] or ([memberships[0].slug] if len(memberships) == 1 else [])
        if not slugs:
            names = ", ".join(f"`{project.slug}`" for project in memberships) or "none"
            raise TeamServerError(
                f"No project is given, and you have no personal project; you are a member of {names}.", ["name one: project=..."]
            )
        return slugs[0]


def connect(url: str | None = None, token: str | None = None) -> TeamClient:
    """Return a client. URL and token default to `WORKBENCH_SERVER` and `WORKBENCH_TOKEN`, then `workbench login`."""
    return TeamClient(ApiConnection(find_login(url, token)))


def _text_of(plan: "Plan | str") -> str:
    if isinstance(plan, str):
        return plan
    from workbench.documents import dump_plan
    from workbench.plan.plan import Plan

    if not isinstance(plan, Plan):
        raise TeamServerError(wrong_type("plan", plan, "a plan, or the text of a plan document"), ["push(plan)"])
    return dump_plan(plan)
