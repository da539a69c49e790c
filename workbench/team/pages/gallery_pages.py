"""Gallery pages: filters, a plan, comparison and shared plans; and the zoo models for new plans."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from workbench.core.mesh import Mesh
from workbench.errors import WorkbenchError
from workbench.hardware.catalogue import parse_hardware
from workbench.team.access import MissingError, ProjectRole
from workbench.team.actions.action import Inputs
from workbench.team.actions.all_actions import action_of
from workbench.team.actions.comparison import LEAST, MOST
from workbench.team.actions.entry_records import TIERS
from workbench.team.actions.perform import Context, perform
from workbench.team.pages.page_handler import PageHandler, Values, gather, page
from workbench.team.pages.page_words import ENGINE_NAMES, TIER_NAMES
from workbench.team.pages.plan_cards import FIGURE_KINDS, PEAK_MEMORY, SENT, STEP_TIME, FigureKind, PlanCard, read_card
from workbench.team.pages.plan_charts import draw_memory_by_time, draw_predicted_by_measured
from workbench.team.pages.plan_comparison import read_comparison
from workbench.team.web.base_handler import TeamHandler

MOST_SHOWN = 60
"""Maximum number of cards on a page; filters lead to the others."""
MOST_SOUGHT = 600


@page("/p/{project}/", "gallery.html", title="Plans", section="plans")
async def _gallery(handler: PageHandler, project: str) -> Values | None:
    arguments = {key: handler.get_query_argument(key) for key in handler.request.query_arguments}
    if plan := arguments.get("plan"):
        handler.redirect_to(f"/p/{project}/plans/{plan}")
        return None
    if (await handler.project_values(project))["project"]["role"] == str(ProjectRole.STUDENT):
        handler.redirect_to(f"/p/{project}/assignments")
        return None
    filters = GalleryFilters.of(arguments)
    everything = await handler.ask_all("plans.list", MOST_SOUGHT, project=project)
    entries = await handler.ask_all("plans.list", MOST_SOUGHT, filters.query, project=project) if filters.query else everything
    cards = filters.order([card for entry in entries if filters.has(card := read_card(entry))])
    return {
        "filters": filters,
        "choices": choices_in(everything),
        "plans": cards[:MOST_SHOWN],
        "is_cut": len(cards) > MOST_SHOWN,
        "total": len(everything),
        "shown_kinds": FIGURE_KINDS[:3],
        "zoo": tuple(zoo_choices()),
        "baseline": next((read_card(entry) for entry in everything if entry["id"] == filters["baseline"]), None),
        "begins": "new" in arguments,
    }


_PLAN = "/p/{project}/plans/{entry}"


@page(_PLAN, "plan.html", section="plans")
async def _plan(handler: PageHandler, project: str, entry: str) -> Values:
    record = await handler.ask("plans.get", entry=entry)
    if record["project"] != project:
        raise MissingError("plan", entry)
    hardware, forks = await gather(
        handler.ask("hardware.list", project=project),
        handler.ask_all("plans.list", 100, {"digest": record["digest"]}, project=project),
    )
    card = read_card(record)
    return {
        "title": card.name,
        "plan": card,
        "same": [read_card(fork) for fork in forks if fork["id"] != entry],
        "engines": _engines(hardware["items"]),
        "kinds": FIGURE_KINDS,
        "tiers": [tier for tier in TIERS if card.figures.get(tier)],
        "is_own": handler.require_principal().name == card.author.name,
    }


def _engines(hardware: Sequence[Any]) -> list[tuple[str, str]]:
    by_engine: dict[str, list[str]] = {"here": []}
    for item in hardware:
        by_engine.setdefault(item["engine"], []).append(item["name"])
    texts = {engine: ", ".join([ENGINE_NAMES[engine], *sorted(names)]) for engine, names in by_engine.items()}
    return list(texts.items())


@page(f"{_PLAN}/thumbnail.svg")
async def _thumbnail(handler: PageHandler, project: str, entry: str) -> None:  # noqa: ARG001 - of its address
    handler.show_picture((await handler.ask("plans.thumbnail", entry=entry))["svg"], entry, seconds=300)


@page(f"{_PLAN}/document")
async def _document(handler: PageHandler, project: str, entry: str) -> None:  # noqa: ARG001 - of its address
    record = await handler.ask("plans.document", entry=entry)
    handler.set_header("Content-Type", "application/json; charset=utf-8")
    handler.set_header("Content-Disposition", f'attachment; filename="{record["digest"][:12]}.plan.json"')
    handler.finish(record["document"])


@page("/p/{project}/compare", "compare.html", title="Plans compared", section="plans")
async def _compare(handler: PageHandler, project: str) -> Values | None:
    arguments = handler.get_query_arguments("plans")
    ids = list(dict.fromkeys(part for argument in arguments for part in argument.split(",") if part))
    everything = handler.get_query_argument("all", "") == "1"
    address = f"/p/{project}/compare?{urlencode({'plans': ','.join(ids)}, safe=',')}"
    if len(arguments) > 1:  # from checkboxes: a shareable address has one list
        handler.redirect_to(f"{address}{'&all=1' if everything else ''}")
        return None
    if not LEAST <= len(ids) <= MOST:
        raise WorkbenchError(f"{len(ids)} plans selected; compare takes {LEAST} to {MOST}.", ["tick that many in the gallery"])
    compared = read_comparison(await handler.ask("plans.compare", {"plans": ",".join(ids)}, project=project))
    return {
        "compared": compared,
        "groups": compared.groups if everything else compared.only_differences(),
        "everything": everything,
        "address": handler.path_to(address),
        "whole_address": handler.server.url(address),
        "front": draw_memory_by_time(compared.memory_by_time),
        "scatter": draw_predicted_by_measured(compared.predicted_by_measured),
    }


class SharePage(TeamHandler):
    """The target of a secret link. Links to rooms require signing in."""

    async def get(self, secret: str) -> None:
        share = await perform(action_of("shares.open"), Context.of(self), Inputs(body={"secret": secret}))
        if share["kind"] == "room":
            self.redirect_to(f"/room/{share['room']['id']}")
            return
        card = read_card(share["plan"])
        self.write_page("shared_plan.html", title=card.name, plan=card, kinds=FIGURE_KINDS, document=share["document"], said=None, foot=[])


# Gallery filters are in the address, so that every view is a link.

SORTS: Mapping[str, FigureKind] = {"step": STEP_TIME, "peak": PEAK_MEMORY, "sent": SENT}
_NAMES = {"q": "has", "model": "model", "mesh": "mesh", "hardware": "hardware", "author": "by", "dimension": "dimension"}
_MOST = 200  # characters of a filter


class GalleryFilters(dict[str, str]):
    """Filters; empty means any. `tier` is the minimum, `sort` a key of `SORTS`, "forks" or empty (newest first)."""

    @classmethod
    def of(cls, arguments: Mapping[str, str]) -> Self:
        choices = {"tier": TIERS, "fits": ("yes", "no"), "sort": (*SORTS, "name", "forks"), "view": ("cards",)}
        filters = {key: text.strip()[:_MOST] for key, text in arguments.items() if key in (*_NAMES, *choices, "baseline")}
        return cls({key: text for key, text in filters.items() if text and text in choices.get(key, (text,))})

    def __missing__(self, key: str) -> str:
        return ""

    @property
    def query(self) -> dict[str, str]:
        filters = {key: self[key] for key in _NAMES if self[key]}
        return {**filters, **({"fits": "true" if self["fits"] == "yes" else "false"} if self["fits"] else {})}

    @property
    def is_set(self) -> bool:
        return bool(self.query or self["tier"])

    def has(self, card: PlanCard) -> bool:
        """Return whether a plan has figures of the minimum tier; the action applies the other filters."""
        return not self["tier"] or any(card.figures.get(tier) for tier in TIERS[TIERS.index(self["tier"]) :])

    def order(self, cards: Sequence[PlanCard]) -> list[PlanCard]:
        if self["sort"] == "forks":
            return sorted(cards, key=lambda card: -card.forks)
        if self["sort"] == "name":
            return sorted(cards, key=lambda card: card.name.casefold())
        kind = SORTS.get(self["sort"])
        if kind is None:
            return list(cards)
        values = {card.id: figure.value if (figure := card.known(kind)) else float("inf") for card in cards}
        return sorted(cards, key=lambda card: values[card.id])

    @property
    def chips(self) -> list[tuple[str, str]]:
        labels = {key: f"{_NAMES[key]}: {self[key]}" for key in _NAMES if self[key]}
        labels |= {"tier": f"at least {TIER_NAMES[self['tier']]}"} if self["tier"] else {}
        labels |= {"fits": {"yes": "fits", "no": "does not fit"}[self["fits"]]} if self["fits"] else {}
        return [(text, self.change(key, "")) for key, text in labels.items()]

    def change(self, key: str, value: str) -> str:
        """The query of the address with another value of one of them; `?` without any."""
        return f"?{urlencode({each: text for each, text in {**self, key: value}.items() if text})}"


def choices_in(entries: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[str, str]]]:
    return {
        "model": _counted((entry["target"], entry["target"]) for entry in entries),
        "mesh": _counted((entry["mesh"], entry["mesh"]) for entry in entries),
        "hardware": _counted((entry["hardware"], entry["hardware"]) for entry in entries),
        "author": _counted((entry["author"]["name"], entry["author"]["display"]) for entry in entries),
        "dimension": _counted((dim, dim) for entry in entries for dim in entry["dims"]),
    }


def _counted(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    counts = Counter(pair for pair in pairs if pair[0])
    return [(value, f"{text} ({count})") for (value, text), count in sorted(counts.items())]


# Zoo models of the new-plan form. The server cannot import them; they are listed in `zoo_models.json`, which the
# test of this module compares with the registry, and rewrites with `--update-golden`.
ZOO_MODELS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("zoo_models.json").read_text(encoding="utf-8"))


def zoo_choices() -> Iterator[tuple[str, str]]:
    for model in ZOO_MODELS:
        yield model["name"], f"{model['name']}: {model['about']}"
        for preset in model["presets"]:
            yield f"{model['name']} {preset}", f"{model['name']}, preset {preset}"


def zoo_document(fields: Mapping[str, Any]) -> str:
    """Return the plan document of a choice on `devices`, a number or "8 H100". Raises `WorkbenchError`."""
    name, devices = fields.get("program", ""), fields.get("devices", "").strip()
    if name not in dict(zoo_choices()):
        raise MissingError("model of the zoo", name)
    target, _, preset = name.partition(" ")
    hardware = None if devices.isdecimal() else parse_hardware(devices)
    plan = {
        "format": "sharding-workbench.plan",
        "version": 1,
        "name": name,
        "program": {"target": target, "arguments": {"preset": preset} if preset else {}},
        "mesh": Mesh(f"data:{hardware.size if hardware else devices}").axes,
        "layout": {"rules": {}},
        **({"hardware": hardware.name} if hardware else {}),
    }
    return json.dumps(plan)
