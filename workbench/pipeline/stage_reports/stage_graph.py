"""The graph of one stage: the kernels of its blocks' tasks for one micro-batch, with the costs of all their executions in a step."""

from collections.abc import Iterator
from dataclasses import replace

from workbench.cost.kernel_graph import graph_of
from workbench.pipeline.stage_reports.stage_work import StageBlock, StageWork
from workbench.reports.step_graph import Graph, GraphNode, GraphSend


def stage_graph(work: StageWork) -> Graph:
    """The forward tasks of its blocks one after the other, then their backward tasks; inputs of a task that another makes are no nodes."""
    nodes: list[GraphNode] = []
    edges: list[tuple[int, int]] = []
    sends: list[GraphSend] = []
    last = -1
    for block, graph in _graphs(work):
        kept = [number for number, node in enumerate(graph.nodes) if not node.is_input or node.path.startswith("batch")]
        place = {number: len(nodes) + index for index, number in enumerate(kept)}
        nodes += [replace(graph.nodes[number], path=block.path_of(graph.nodes[number].path)) for number in kept]
        inside = [(place[a], place[b]) for a, b in graph.edges if a in place and b in place]
        edges += inside
        edges += [(last, entry) for entry in _entries(graph, place)] if last >= 0 else []
        sends += [_moved(each, place, block) for each in graph.sends]
        last = max(place.values(), default=last)
    return Graph(tuple(nodes), tuple(edges), tuple(sends))


def _graphs(work: StageWork) -> Iterator[tuple[StageBlock, Graph]]:
    for backward in (False, True):
        for block in work.blocks[::-1] if backward else work.blocks:
            found, times = block.runs[backward]
            seconds = () if found.times is None else found.times.busy + found.times.launch
            graph = graph_of(found.plan.program, found.partitioned, found.kernels, found.plan.mesh, seconds, found.simulated)
            yield block, _repeated(graph, times)


def _repeated(graph: Graph, times: int) -> Graph:
    """Every figure of a graph for all executions of its task."""
    nodes = tuple(replace(each, count=each.count * times, seconds=each.seconds * times, flops=each.flops * times) for each in graph.nodes)
    sends = tuple(
        replace(each, count=each.count * times, sent=each.sent * times, seconds=each.seconds * times, exposed=each.exposed * times)
        for each in graph.sends
    )
    return Graph(nodes, graph.edges, sends)


def _entries(graph: Graph, place: dict[int, int]) -> Iterator[int]:
    """The kernels that read what an earlier task made: an input that is no part of the batch."""
    outside = {number for number, node in enumerate(graph.nodes) if node.is_input and number not in place}
    yield from dict.fromkeys(place[reader] for maker, reader in graph.edges if maker in outside and reader in place)


def _moved(send: GraphSend, place: dict[int, int], block: StageBlock) -> GraphSend:
    return replace(send, maker=place.get(send.maker, -1), reader=place.get(send.reader, -1), path=block.path_of(send.path))
