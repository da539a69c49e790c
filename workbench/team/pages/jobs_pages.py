"""The jobs of a project: the queue, what runs, what is over; one job with its figures and its log. What moves is asked again as JSON."""

from collections.abc import Mapping
from typing import Any

from workbench.errors import WorkbenchError
from workbench.team.access import MissingError
from workbench.team.actions.jobs import ENDED
from workbench.team.pages.job_views import MOST_LINES, job_curves, job_facts, job_figures, job_view, log_lines
from workbench.team.pages.page_handler import ProjectPageHandler, gather
from workbench.team.pages.plan_cards import PRICE, PlanCard, read_card

MOST_JOBS, MOST_ENDED = 100, 40
_MOST_EVENTS = 10_000
_TAIL = 50  # the last events, for a line of progress


def price_of(job: Any, cards: Mapping[str, PlanCard]) -> str:
    """What 1,000 steps cost by what a job that is done found out; empty where no price is known."""
    tier = "measured" if job["kind"] == "run" else "compiled"
    card = cards.get(job["plan"]["id"]) if job["plan"] and job["state"] == "done" else None
    price = card.of_tier(PRICE, tier) if card else None
    return price.text if price else ""


class JobsHandler(ProjectPageHandler):
    """What the pages of jobs share."""

    async def cards_of(self, jobs: list[Any]) -> dict[str, PlanCard]:
        """The plans that jobs are of, by the id of their entry."""
        ids = sorted({each["plan"]["id"] for each in jobs if each["plan"] and each["state"] == "done"})
        return {entry["id"]: read_card(entry) for entry in await gather(*(self.ask("plans.get", entry=each) for each in ids))}

    async def waiting(self, project: str, jobs: list[Any]) -> list[Any]:
        """Those that are not over, each with what it does now."""
        role = (await self.ask("projects.get", project=project))["role"]
        open_ones = [each for each in jobs if each["state"] not in ENDED]
        events = await gather(*(self.last_events(each) for each in open_ones))
        return [job_view(each, of_job, self.may_cancel(each, role)) for each, of_job in zip(open_ones, events, strict=True)]

    def may_cancel(self, job: Any, role: str) -> bool:
        """Whether the button is shown; the action judges."""
        return role == "owner" or (role == "runner" and job["author"]["name"] == self.require_principal().name)

    async def last_events(self, job: Any) -> list[Any]:
        """The events of a job that runs; none where the server runs none."""
        if job["state"] == "queued":
            return []
        return (await self.events_of(job["id"]))[-_TAIL:]

    async def events_of(self, job: str) -> list[Any]:
        """All events of a job."""
        found: list[Any] = []
        after = 0
        while len(found) < _MOST_EVENTS:
            try:
                part = await self.ask("jobs.events", {"after": str(after)}, job=job)
            except WorkbenchError:
                return found
            found += part["items"]
            if not part["items"] or part["after"] == after:
                break
            after = part["after"]
        return found


class JobsPage(JobsHandler):
    async def get(self, project: str) -> None:
        jobs = await self.ask_all("jobs.list", MOST_JOBS, project=project)
        waiting = await self.waiting(project, jobs)
        ended = [job_view(each, (), may_cancel=False) for each in jobs if each["state"] in ENDED][:MOST_ENDED]
        cards = await self.cards_of(ended)
        ended = [{**each, "price": price_of(each, cards)} for each in ended]
        await self.show_in_project("jobs.html", project, "jobs", title="Jobs", waiting=waiting, ended=ended)


class LiveJobs(JobsHandler):
    """The jobs that wait or run, as a part of the page."""

    async def get(self, project: str) -> None:
        shown, jobs = await gather(self.ask("projects.get", project=project), self.ask_all("jobs.list", MOST_JOBS, project=project))
        waiting = await self.waiting(project, jobs)
        may = {"runner": shown["role"] in ("runner", "owner")}
        self.write_part("jobs_live.html", not waiting, waiting=waiting, here=f"/p/{project}", may=may)


class JobHandler(JobsHandler):
    """What the page of one job and its live part share."""

    async def values_of(self, project: str, job: str) -> dict[str, Any]:
        """What the page shows of it."""
        found = await self.ask("jobs.get", job=job)
        if found["project"] != project:
            raise MissingError("job", job)
        shown, events, entries = await gather(
            self.ask("projects.get", project=project),
            self.events_of(job),
            self.ask("plans.list", {"digest": found["digest"], "limit": "1"}, project=project),
        )
        card = read_card(entries["items"][0]) if entries["items"] else None
        lines = log_lines(events)
        return {
            "job": job_view(found, events, self.may_cancel(found, shown["role"])),
            "figures": job_figures(found, events, card),
            "curves": job_curves(events),
            "lines": lines[-MOST_LINES:],
            "cut": len(lines) > MOST_LINES,
            "facts": job_facts(found),
        }


class JobPage(JobHandler):
    """One job."""

    async def get(self, project: str, job: str) -> None:
        values = await self.values_of(project, job)
        await self.show_in_project(
            "job.html", project, "jobs", title=f"{values['job']['kind'].capitalize()} of {values['job']['plan_name']}", **values
        )


class LiveJob(JobHandler):
    """One job, as a part of its page."""

    async def get(self, project: str, job: str) -> None:
        values = await self.values_of(project, job)
        self.write_part("job_live.html", values["job"]["is_over"], here=f"/p/{project}", **values)
