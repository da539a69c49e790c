"""The gallery of a project: its filters, one plan, plans beside each other, what a link leads to that somebody shared, and the models of
the zoo that a new plan begins with."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from workbench.errors import WorkbenchError
from workbench.team.access import MissingError, ProjectRole
from workbench.team.actions.action import Inputs
from workbench.team.actions.all_actions import action_of
from workbench.team.actions.comparison import LEAST, MOST
from workbench.team.actions.entry_records import TIERS
from workbench.team.actions.perform import Context, perform
from workbench.team.pages.page_handler import ProjectPageHandler, gather
from workbench.team.pages.page_words import ENGINE_NAMES, TIER_NAMES
from workbench.team.pages.plan_cards import FIGURE_KINDS, PEAK_MEMORY, SENT, STEP_TIME, FigureKind, PlanCard, read_card
from workbench.team.pages.plan_charts import draw_memory_by_time, draw_predicted_by_measured
from workbench.team.pages.plan_comparison import read_comparison
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
        cards = filters.order([card for each in found if filters.has(card := read_card(each))])
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
        card = read_card(found)
        same = [read_card(each) for each in forks if each["id"] != entry]
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
            is_own=self.require_principal().name == card.author.name,
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
            raise WorkbenchError(f"{len(ids)} plans selected; compare takes {LEAST} to {MOST}.", ["tick that many in the gallery"])
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
        found = await perform(action_of("shares.open"), Context.of(self), Inputs(body={"secret": secret}))
        if found["kind"] == "room":
            self.redirect_to(f"/room/{found['room']['id']}")
            return
        card = read_card(found["plan"])
        self.write_page("shared_plan.html", title=card.name, plan=card, kinds=FIGURE_KINDS, document=found["document"], said=None, foot=[])


# What a gallery is asked for, in its address: every view of it is a link.

SORTS: Mapping[str, FigureKind] = {"step": STEP_TIME, "peak": PEAK_MEMORY, "sent": SENT}
_NAMES = {"q": "has", "model": "model", "mesh": "mesh", "hardware": "hardware", "author": "by", "dimension": "dimension"}
_MOST = 200  # characters of a filter


@dataclass(frozen=True, slots=True)
class GalleryFilters:
    """Empty is any; `fits` is "yes" or "no", `tier` the least tier, `sort` a key of `SORTS`, "forks", or empty for the newest first."""

    q: str = ""
    model: str = ""
    mesh: str = ""
    hardware: str = ""
    author: str = ""
    dimension: str = ""
    tier: str = ""
    fits: str = ""
    sort: str = ""

    @classmethod
    def of(cls, arguments: Mapping[str, str]) -> Self:
        """The filters of an address; what means nothing there is left out."""
        found = {key: arguments[key].strip()[:_MOST] for key in cls.__slots__ if key in arguments}
        words = {"tier": TIERS, "fits": ("yes", "no"), "sort": (*SORTS, "forks")}
        return cls(**{key: value for key, value in found.items() if key not in words or value in words[key]})

    def __getitem__(self, key: str) -> str:
        return str(getattr(self, key))

    @property
    def query(self) -> dict[str, str]:
        """What the gallery's action is asked."""
        asked = {key: self[key] for key in _NAMES if self[key]}
        return {**asked, **({"fits": "true" if self.fits == "yes" else "false"} if self.fits else {})}

    @property
    def is_set(self) -> bool:
        """Whether any plan may be left out."""
        return bool(self.query or self.tier)

    def has(self, card: PlanCard) -> bool:
        """Whether a plan is known as well as is asked; the rest is the action's to say."""
        return not self.tier or any(card.figures.get(each) for each in TIERS[TIERS.index(self.tier) :])

    def order(self, cards: Sequence[PlanCard]) -> list[PlanCard]:
        """The plans in the order that is asked for; those without the figure come last."""
        if self.sort == "forks":
            return sorted(cards, key=lambda card: -card.forks)
        kind = SORTS.get(self.sort)
        if kind is None:
            return list(cards)
        values = {card.id: found.value if (found := card.known(kind)) else float("inf") for card in cards}
        return sorted(cards, key=lambda card: values[card.id])

    @property
    def chips(self) -> list[tuple[str, str]]:
        """Each filter in words, with the query that is without it."""
        words = {key: f"{_NAMES[key]}: {self[key]}" for key in _NAMES if self[key]}
        words |= {"tier": f"at least {TIER_NAMES[self.tier]}"} if self.tier else {}
        words |= {"fits": {"yes": "fits", "no": "does not fit"}[self.fits]} if self.fits else {}
        return [(text, self._without(key)) for key, text in words.items()]

    def _without(self, key: str) -> str:
        kept = {each: self[each] for each in self.__slots__ if self[each] and each != key}
        return f"?{urlencode(kept)}" if kept else ""


def choices_in(entries: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[str, str]]]:
    """What there is to choose from, each with the number of plans that it is of."""
    return {
        "model": _counted((each["target"], each["target"]) for each in entries),
        "mesh": _counted((each["mesh"], each["mesh"]) for each in entries),
        "hardware": _counted((each["hardware"], each["hardware"]) for each in entries),
        "author": _counted((each["author"]["name"], each["author"]["display"]) for each in entries),
        "dimension": _counted((dim, dim) for each in entries for dim in each["dims"]),
    }


def _counted(pairs: Any) -> list[tuple[str, str]]:
    counts: dict[tuple[str, str], int] = {}
    for each in pairs:
        if each[0]:
            counts[each] = counts.get(each, 0) + 1
    return [(value, f"{text} ({counts[value, text]})") for value, text in sorted(counts)]


# The models of the zoo, for the form that begins with one: the server itself cannot import them. They are in `zoo_models.json`, which the
# test of this module holds against the registry, and writes anew with `--update-golden`.


@dataclass(frozen=True, slots=True)
class ZooModel:
    """A model by its name, what it is, and its presets."""

    name: str
    about: str
    presets: tuple[str, ...] = ()


ZOO_MODELS = tuple(
    ZooModel(each["name"], each["about"], tuple(each["presets"]))
    for each in json.loads(Path(__file__).with_name("zoo_models.json").read_text(encoding="utf-8"))
)


def zoo_choices() -> Iterator[tuple[str, str]]:
    """The choices of the form: a plan's name and program as its document has them, and what people read."""
    for model in ZOO_MODELS:
        yield _begun(model.name), f"{model.name}: {model.about}"
        for preset in model.presets:
            yield _begun(model.name, preset), f"{model.name}, preset {preset}"


def zoo_document(begun: str, devices: str) -> str:
    """The document of a choice, on so many devices along one mesh axis."""
    ends = '{"format": "sharding-workbench.plan", "version": 1, ', f', "mesh": [["data", {devices}]], "layout": {{"rules": {{}}}}}}'
    return begun.join(ends)


def _begun(target: str, preset: str = "") -> str:
    program = {"target": target, "arguments": {"preset": preset} if preset else {}}
    return json.dumps({"name": f"{target} {preset}".strip(), "program": program})[1:-1]
