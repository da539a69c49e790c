"""What a gallery is asked for, in its address: every view of it is a link."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlencode

from workbench.team.pages.page_words import TIER_NAMES, TIERS
from workbench.team.pages.plan_cards import PEAK_MEMORY, SENT, STEP_TIME, FigureKind, PlanCard

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
