"""The gallery of a project, one of its plans, plans beside each other, and what a link leads to that somebody shared."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from workbench.errors import WorkbenchError
from workbench.team.access import MissingError, ProjectRole
from workbench.team.actions.action import Inputs
from workbench.team.actions.perform import Context, perform
from workbench.team.pages.gallery_filters import GalleryFilters, choices_in
from workbench.team.pages.page_handler import ProjectPageHandler, action_named, gather
from workbench.team.pages.page_words import ENGINE_NAMES, TIERS
from workbench.team.pages.plan_cards import FIGURE_KINDS, PlanCard
from workbench.team.pages.plan_charts import draw_memory_by_time, draw_predicted_by_measured
from workbench.team.pages.plan_comparison import LEAST, MOST, read_comparison
from workbench.team.pages.zoo_models import zoo_choices
from workbench.team.web.base_handler import TeamHandler

MOST_SHOWN = 60
"""Cards on one page; filters lead to the others."""
MOST_SOUGHT = 600


class GalleryPage(ProjectPageHandler):
    """Cards of plans, by what the address asks for."""

    async def get(self, project: str) -> None:
        arguments = {key: self.get_query_argument(key) for key in self.request.query_arguments}
        if plan := arguments.get("plan"):
            self.redirect_to(f"/p/{project}/plans/{plan}")
            return
        if (await self.ask("projects.get", project=project))["role"] == str(ProjectRole.STUDENT):
            self.redirect_to(f"/p/{project}/assignments")
            return
        filters = GalleryFilters.of(arguments)
        everything = await self.ask_all("plans.list", MOST_SOUGHT, project=project)
        found = await self.ask_all("plans.list", MOST_SOUGHT, filters.query, project=project) if filters.query else everything
        cards = filters.order([card for each in found if filters.has(card := PlanCard.of(each))])
        await self.show_in_project(
            "gallery.html",
            project,
            "plans",
            title="Plans",
            filters=filters,
            choices=choices_in(everything),
            plans=cards[:MOST_SHOWN],
            is_cut=len(cards) > MOST_SHOWN,
            total=len(everything),
            shown_kinds=FIGURE_KINDS[:3],
            zoo=tuple(zoo_choices()),
        )


class PlanPage(ProjectPageHandler):
    """One plan: what each tier says of it, its statements, who tried it, and what can be done with it."""

    async def get(self, project: str, entry: str) -> None:
        found = await self.ask("plans.get", entry=entry)
        if found["project"] != project:
            raise MissingError("plan", entry)
        hardware, forks = await gather(
            self.ask("hardware.list", project=project),
            self.ask_all("plans.list", 100, {"digest": found["digest"]}, project=project),
        )
        card = PlanCard.of(found)
        same = [PlanCard.of(each) for each in forks if each["id"] != entry]
        await self.show_in_project(
            "plan.html",
            project,
            "plans",
            title=card.name,
            plan=card,
            same=same,
            engines=_engines(hardware["items"]),
            kinds=FIGURE_KINDS,
            tiers=[tier for tier in TIERS if card.figures.get(tier)],
            is_own=self.require_principal().name == card.author_name,
        )


def _engines(hardware: Sequence[Any]) -> list[tuple[str, str]]:
    """Where jobs can go: this server, and what the project's hardware is run by."""
    by_engine: dict[str, list[str]] = {"here": []}
    for each in hardware:
        by_engine.setdefault(each["engine"], []).append(each["name"])
    texts = {engine: ", ".join([ENGINE_NAMES[engine], *sorted(names)]) for engine, names in by_engine.items()}
    return list(texts.items())


class ThumbnailPage(ProjectPageHandler):
    """The picture of a plan's layout, by itself."""

    async def get(self, project: str, entry: str) -> None:  # noqa: ARG002 - of its address
        self.show_picture((await self.ask("plans.thumbnail", entry=entry))["svg"], entry, seconds=300)


class DocumentPage(ProjectPageHandler):
    """The document of a plan, as a file."""

    async def get(self, project: str, entry: str) -> None:  # noqa: ARG002 - of its address
        found = await self.ask("plans.document", entry=entry)
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.set_header("Content-Disposition", f'attachment; filename="{found["digest"][:12]}.plan.json"')
        self.finish(found["document"])


class ComparePage(ProjectPageHandler):
    """Two to ten plans beside each other; their ids are in the address."""

    async def get(self, project: str) -> None:
        asked = self.get_query_arguments("plans")
        ids = list(dict.fromkeys(part for each in asked for part in each.split(",") if part))
        everything = self.get_query_argument("all", "") == "1"
        if len(asked) > 1:  # ticked boxes: the address that is sent around has one list
            self.redirect_to(f"{self._address(project, ids)}{'&all=1' if everything else ''}")
            return
        if not LEAST <= len(ids) <= MOST:
            raise WorkbenchError(f"{len(ids)} plans are asked for; {LEAST} to {MOST} can be compared.", ["tick that many in the gallery"])
        compared = read_comparison(await self.ask("plans.compare", {"plans": ",".join(ids)}, project=project))
        address = self._address(project, ids)
        await self.show_in_project(
            "compare.html",
            project,
            "plans",
            title="Plans compared",
            compared=compared,
            groups=compared.groups if everything else compared.only_differences(),
            everything=everything,
            address=self.path_to(address),
            whole_address=self.server.url(address),
            front=draw_memory_by_time(compared.memory_by_time),
            scatter=draw_predicted_by_measured(compared.predicted_by_measured),
        )

    def _address(self, project: str, ids: Sequence[str]) -> str:
        return f"/p/{project}/compare?{urlencode({'plans': ','.join(ids)}, safe=',')}"


class SharePage(TeamHandler):
    """See the module. Whoever is not signed in and has a link to a room is sent to do so."""

    async def get(self, secret: str) -> None:
        found = await perform(
            action_named("shares.open"),
            Context(self.server, self.principal, self.request.remote_ip or ""),
            Inputs({}, {}, {"secret": secret}),
        )
        if found["kind"] == "room":
            self.redirect_to(f"/room/{found['room']['id']}")
            return
        card = PlanCard.of(found["plan"])
        self.write_page("shared_plan.html", title=card.name, plan=card, kinds=FIGURE_KINDS, document=found["document"], said=None, foot=[])
