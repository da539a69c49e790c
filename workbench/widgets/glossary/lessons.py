"""The lessons by course, the lesson that introduces each term, and the address of the documentation site."""

import os
import re

COURSES: dict[str, dict[str, str]] = {
    "Layouts": {
        "one_product": "One product on two devices",
        "sharded_tensors": "Tensors split over several axes",
        "propagation": "Annotate a few, the rest is inferred",
        "conflicts": "Two statements, one axis",
    },
    "Collectives and cost": {
        "four_collectives": "What has to be sent",
        "cost_of_a_collective": "What a collective costs",
        "roofline": "Arithmetic, memory, or links",
        "contradictions": "When sources disagree",
    },
    "Training at scale": {
        "data_parallel": "Split the batch",
        "zero": "Split the state: ZeRO 1, 2, 3",
        "tensor_parallel": "Split the layer",
        "two_axes": "Batch and layer together",
        "activations": "Keep or compute again",
        "experts": "A mixture of experts",
    },
    "Pipelines and many models": {
        "pipeline_bubble": "Stages and the bubble",
        "schedules": "Which micro-batch first",
        "balance": "Stages of equal length",
        "parallel_front": "Which parallelism for this model?",
        "many_models": "Many models on few devices",
        "cluster_game": "The cluster game",
    },
    "Inference": {
        "prefill_and_decode": "Two programs: prefill and decode",
        "kv_cache": "The cache decides the batch",
        "latency_and_throughput": "Latency or throughput",
        "serving_experts": "Serving a mixture",
    },
}
"""Folder and title of each lesson, in reading order."""
LESSONS: dict[str, str] = {name: title for titles in COURSES.values() for name, title in titles.items()}
NOTEBOOKS: dict[str, str] = {
    "01_layouts": "Layouts",
    "02_pipeline": "Pipelines",
    "03_gspmd": "Annotations and propagation",
    "04_many_models": "Many models at once",
    "05_search": "Finding the best plan",
}
"""File stem and title of each notebook."""
LESSON_OF: dict[str, str] = {
    "Mesh": "one_product",
    "Named dimension": "one_product",
    "Duplication": "one_product",
    "Partial sum (unreduced)": "one_product",
    "Sharding": "sharded_tensors",
    "Per device": "sharded_tensors",
    "Propagation": "propagation",
    "Override and constraint": "propagation",
    "Minimal annotations": "propagation",
    "Conflict": "conflicts",
    "Round (priority)": "conflicts",
    "Padding": "conflicts",
    "Collective": "four_collectives",
    "Payload": "four_collectives",
    "Sent per device": "four_collectives",
    "4 Swapped from dimension to dimension": "four_collectives",
    "6 Gathered": "four_collectives",
    "Memory per device": "zero",
    "Role": "zero",
    "Recipe": "tensor_parallel",
    "Hardware, and axes on links": "two_axes",
    "Recomputation": "activations",
    "Recompute": "activations",
    "Exposed and hidden communication": "data_parallel",
    "Predicted step": "data_parallel",
    "Predicted, compiled, measured": "cluster_game",
    "Stage": "pipeline_bubble",
    "Micro-batch": "pipeline_bubble",
    "Bubble": "pipeline_bubble",
    "Schedule": "schedules",
    "GPipe": "schedules",
    "1F1B": "schedules",
    "Interleaved, chunks": "schedules",
    "Balance of the stages": "balance",
    "Fullest stage": "balance",
    "Sent between stages": "balance",
    "Find": "parallel_front",
    "Front": "parallel_front",
    "Shard": "many_models",
    "Shard unit": "many_models",
    "Makespan": "many_models",
    "Lower bound": "many_models",
    "Policy": "many_models",
    "Prefill": "prefill_and_decode",
    "Decode": "prefill_and_decode",
    "Time to first token": "prefill_and_decode",
    "KV cache": "kv_cache",
    "Batch of sequences": "kv_cache",
    "Latency per token": "latency_and_throughput",
    "Throughput": "latency_and_throughput",
    "Latency front": "latency_and_throughput",
}
"""The lesson that introduces each term."""
DOCS_VARIABLE = "WORKBENCH_DOCS"
"""Environment variable with the address of the documentation site, `https://example.org/workbench`."""


def docs_address() -> str:
    """Return the address of the documentation site without a trailing slash; empty if unset or not an HTTP URL."""
    address = os.environ.get(DOCS_VARIABLE, "").strip().rstrip("/")
    return address if address.startswith(("https://", "http://")) else ""


_LESSON_LINK = re.compile(r"\[([^\]]+)\]\(\.\./(\w+)/lesson\.md\)")
_DOCS_LINK = re.compile(r"\[([^\]]+)\]\(\.\./\.\./docs/(\w+)\.md\)")


def replace_links(text: str, to_lesson: str) -> str:
    r"""Return the text of a lesson with links that work outside its folder: to the documentation site, or as plain text if that is unknown.

    `to_lesson` replaces a link to another lesson: `\1` is the linked words, `\2` its name.

    >>> replace_links("Read [costs](../roofline/lesson.md), [search](../../docs/search.md).", r"[\1](?lesson=\2)")
    'Read [costs](?lesson=roofline), search.'
    """
    text = _LESSON_LINK.sub(to_lesson, text)
    return _DOCS_LINK.sub(rf"[\1]({docs_address()}/\2.html)" if docs_address() else r"\1", text)


def lesson_link(name: str) -> dict[str, str]:
    """The title of a lesson, and its address on a server that opens lessons."""
    return {"title": LESSONS[name], "link": f"?lesson={name}"}


def page_name(term: str) -> str:
    """Convert a term into the name of its page on the site.

    >>> page_name("Round (priority)"), page_name("1 Stays")
    ('round_priority', '1_stays')
    """
    return re.sub(r"[^a-z0-9]+", "_", term.lower()).strip("_")


def page_of(term: str) -> str:
    """Return the address of a term's page; empty if the site is unknown."""
    return f"{docs_address()}/glossary/{page_name(term)}.html" if docs_address() else ""


def lesson_of(term: str) -> dict[str, str] | None:
    """Return the title and address of the lesson that teaches a term; `None` if no lesson does."""
    name = LESSON_OF.get(term)
    if name is None:
        return None
    return {"title": LESSONS[name], "link": f"{docs_address()}/lessons/{name}/lesson.html" if docs_address() else ""}
