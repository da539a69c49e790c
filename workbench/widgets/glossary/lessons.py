"""The lessons, by course, and which of them teaches a word of the board; where the documentation site is, for links to both."""

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
"""The folder of each lesson and its title, in the order in which lessons build on each other."""
NOTEBOOKS: dict[str, str] = {
    "01_layouts": "Layouts",
    "02_pipeline": "Pipelines",
    "03_gspmd": "Annotations and propagation",
    "04_many_models": "Many models at once",
    "05_search": "Finding the best plan",
}
"""The file of each notebook, without its ending, and its title."""
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
"""By the name of a term, the lesson that begins with it."""
DOCS_VARIABLE = "WORKBENCH_DOCS"
"""The environment variable that says where the documentation site is: `https://example.org/workbench`. Without it nothing links there."""


def docs_address() -> str:
    """The address of the documentation site, without a slash at its end; empty where no fix found."""
    found = os.environ.get(DOCS_VARIABLE, "").strip().rstrip("/")
    return found if found.startswith(("https://", "http://")) else ""


def page_name(term: str) -> str:
    """A term's name as the name of its page of the site.

    >>> page_name("Round (priority)"), page_name("1 Stays")
    ('round_priority', '1_stays')
    """
    return re.sub(r"[^a-z0-9]+", "_", term.lower()).strip("_")


def page_of(term: str) -> str:
    """The address of a term's page; empty where the site is not known."""
    return f"{docs_address()}/glossary/{page_name(term)}.html" if docs_address() else ""


def lesson_of(term: str) -> dict[str, str] | None:
    """The lesson that teaches a term: its title, and its address where the site is known; `None` where there is none."""
    name = LESSON_OF.get(term)
    if name is None:
        return None
    title = next(lessons[name] for lessons in COURSES.values() if name in lessons)
    return {"title": title, "link": f"{docs_address()}/lessons/{name}/lesson.html" if docs_address() else ""}
