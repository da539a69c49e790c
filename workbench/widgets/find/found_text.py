"""A plan found in words: its decisions without what is not there."""

from workbench.search.plan_candidate import NO_ZERO, PlanCandidate
from workbench.search.search_figures import Figures
from workbench.units import format_bytes, format_dollars, format_seconds


def found_text(candidate: PlanCandidate) -> str:
    """The decisions that a person would mention.

    >>> found_text(PlanCandidate("", (("stage", 1), ("data", 4), ("model", 2)), "megatron", remat="full"))
    'data:4 model:2, megatron, remat full'
    """
    parts = [candidate.describe("mesh"), candidate.layout]
    parts += [candidate.describe("zero")] if candidate.zero != NO_ZERO else []
    parts += [candidate.describe(name) for name in ("remat", "precision", "offload") if candidate.mentions(name)]
    parts += [pipeline_text(candidate)] if candidate.schedule else []
    return ", ".join(parts)


def traced_text(candidate: PlanCandidate) -> str:
    """How its program is traced.

    >>> traced_text(PlanCandidate("", (), "megatron", remat="full", offload="optimizer_state"))
    'full, optimizer state offloaded'
    """
    others = [candidate.describe(name) for name in ("precision", "offload") if candidate.mentions(name)]
    return ", ".join([candidate.describe("remat").removeprefix("remat "), *others])


def pipeline_text(candidate: PlanCandidate) -> str:
    """Its schedule, its micro-batches and boundaries that are not by time; empty for one program."""
    shown = ("schedule", "micro_batches", "boundaries")
    return ", ".join(candidate.describe(name) for name in shown if candidate.mentions(name))


def brief_figures(figures: Figures) -> str:
    """`449 µs, 2.40 MiB`."""
    return f"{format_seconds(figures.seconds)}, {format_bytes(int(figures.memory))}"


def long_figures(figures: Figures) -> str:
    """The same in a sentence's part, with what it costs."""
    dollars = "" if figures.dollars is None else f"; {format_dollars(figures.dollars)} for 1,000 steps"
    memory = f"{format_bytes(int(figures.memory))} on the fullest of {figures.devices:,} devices"
    return f"{format_seconds(figures.seconds)} a step, {memory}{dollars}"


def parts_text(figures: Figures) -> str:
    """The parts of its step, `step: compute-bound 210 µs, exposed communication 40.0 µs`; empty where they are not known."""
    parts = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in figures.parts)
    return f"step: {parts}" if parts else ""
