"""Template filters that format numbers, times and names."""

import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from workbench.units import format_bytes, format_dollars, format_seconds

TIER_NAMES = {"planned": "predicted", "partitioned": "partitioned", "compiled": "compiled", "measured": "measured"}
TIER_MEANINGS = {
    "planned": "estimated from the plan alone",
    "partitioned": "from the program partitioned by XLA",
    "compiled": "from the compiled program",
    "measured": "seen on devices",
}
ENGINE_NAMES = {"here": "this server", "slurm": "Slurm", "ray": "Ray", "kubernetes": "Kubernetes"}
_DAY = 86400.0  # seconds
_AGES = (
    *((60.0, 1.0, "second"), (3600.0, 60.0, "minute"), (_DAY, 3600.0, "hour")),
    *((_DAY * 30, _DAY, "day"), (_DAY * 365, _DAY * 30.44, "month"), (float("inf"), _DAY * 365.25, "year")),
)
_CODE, _TEXT = Markup("<code>{}</code>"), Markup("{}")
_SOON = 5.0  # seconds
_TIME = Markup('<time datetime="{}" title="{}">{}</time>')


def write_age(moment: float | None) -> Markup:
    """Format the time since or until a moment, with the moment itself as a tooltip; empty for `None`."""
    if moment is None:
        return Markup()
    return _TIME.format(f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%dT%H:%M:%SZ}", write_moment(moment), _age(moment - time.time()))


def write_moment(moment: float | None) -> str:
    """
    >>> write_moment(0.0)
    '1970-01-01 00:00 UTC'
    """
    return "" if moment is None else f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC"


def write_span(seconds: float | None) -> str:
    """Format a duration.

    >>> write_span(42.3), write_span(3723), write_span(190)
    ('42 s', '1 h 2 min', '3 min 10 s')
    """
    if seconds is None:
        return ""
    whole = max(0, round(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours} h {minutes_left} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def write_bytes(count: float | None) -> str:
    return "—" if count is None or not math.isfinite(count) else format_bytes(count)


def write_seconds(seconds: float | None) -> str:
    return "—" if seconds is None or not math.isfinite(seconds) else format_seconds(seconds)


def write_ratio(ratio: float) -> str:
    """How much more than another figure one is, or less.

    >>> write_ratio(1.124), write_ratio(3.2), write_ratio(1.0004), write_ratio(600.4), write_ratio(0.75)
    ('+12 %', '3.2 ×', '+0.04 %', '600 ×', '−25 %')
    """
    if ratio >= 2:
        return f"{ratio:,.0f} ×" if ratio >= 10 else f"{ratio:.2g} ×"
    return f"{(ratio - 1) * 100:+.{0 if abs(ratio - 1) >= 0.1 else 1 if abs(ratio - 1) >= 0.01 else 2}f} %".replace("-", "−")


def write_dollars(amount: float | None) -> str:
    return "—" if amount is None or not math.isfinite(amount) else format_dollars(amount)


def write_hourly(price: float | None) -> str:
    """
    >>> write_hourly(0.9), write_hourly(110.08), write_hourly(None)
    ('$0.90', '$110.08', '—')
    """
    return "—" if price is None else f"${price:,.2f}" if price >= 0.1 else format_dollars(price)


def name_browser(agent: str) -> str:
    """Return a short name of a user agent.

    >>> name_browser("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"), name_browser("python-httpx/0.28")
    ('Firefox on Linux', 'python-httpx')
    >>> name_browser("")
    'unknown browser'
    """
    names = {"Firefox/": "Firefox", "Edg/": "Edge", "OPR/": "Opera", "Chrome/": "Chrome", "Safari/": "Safari"}
    systems = {"Windows": "Windows", "Android": "Android", "iPhone": "iPhone", "iPad": "iPad", "Mac OS": "macOS", "Linux": "Linux"}
    name = next((name for sign, name in names.items() if sign in agent), agent.partition("/")[0].strip()[:40])
    system = next((name for sign, name in systems.items() if sign in agent), "")
    return f"{name} on {system}" if name and system else name or "unknown browser"


def initials(name: str) -> str:
    """Return two letters of a name for its avatar.

    >>> initials("Ada Lovelace"), initials("ben"), initials("")
    ('AL', 'BE', '?')
    """
    words = name.split()
    letters = words[0][0] + words[-1][0] if len(words) > 1 else name.strip()[:2]
    return letters.upper() or "?"


def face_colour(name: str) -> int:
    """Return one of six colour numbers, the same for a name on every page."""
    return sum(name.encode("utf-8", "replace")) % 6


def write_question(text: str) -> Markup:
    """Format an exercise's question, with code in backticks.

    >>> write_question("Split `I` <b>")
    Markup('Split <code>I</code> &lt;b&gt;')
    """
    return Markup().join((_CODE if place % 2 else _TEXT).format(part) for place, part in enumerate(text.split("`")))


def _age(difference: float) -> str:
    """
    >>> _age(-7200), _age(86400 * 3), _age(-2), _age(86400 * 100), _age(86400 * -365)
    ('2 hours ago', 'in 3 days', 'just now', 'in 3 months', '1 year ago')
    """
    size = abs(difference)
    if size < _SOON:
        return "just now"
    unit, name = next((unit, name) for below, unit, name in _AGES if size < below)
    count = max(1, int(size / unit + (0 if difference < 0 else 0.5)))
    text = f"{count} {name}{'s' * (count != 1)}"
    return f"{text} ago" if difference < 0 else f"in {text}"


PAGE_FILTERS: Mapping[str, Callable[..., Any]] = {
    "age": write_age,
    "moment": write_moment,
    "span": write_span,
    "bytes": write_bytes,
    "seconds": write_seconds,
    "hourly": write_hourly,
    "browser": name_browser,
    "initials": initials,
    "face_colour": face_colour,
    "question": write_question,
    "pair": lambda value: (value, value),
    "points": lambda number: f"{number:g}",
    "short": lambda digest: digest[:10],
    "engine": lambda engine: ENGINE_NAMES.get(engine, engine),
    "tier_name": lambda tier: TIER_NAMES.get(tier, tier),
    "tier_meaning": lambda tier: TIER_MEANINGS.get(tier, ""),
}
