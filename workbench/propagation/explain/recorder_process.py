"""A program that runs Shardy's recording passes and answers on its pipes: `python -m workbench.propagation.explain.recorder_process
SECONDS`.

Shardy keeps records of operations that it may have erased meanwhile, which can end the process; `recorder` starts this one and survives it.
A request on standard input is two frames, the passes and a module as bytecode; an answer is two, `done` or `error` and its text. A frame is
its length in eight bytes and that many bytes. It ends when its standard input does, when there was no request for a while, to free its
memory, or when a request takes longer than its limit.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from jax.extend.mlir import ir

from workbench.core.child_process import end_with_parent
from workbench.core.operating_system import limit_data, set_alarm, wait_for_input
from workbench.propagation.module.mlir_context import context, main_function, parse_module, producer, run_passes
from workbench.propagation.module.operation_kinds import CONTROL_FLOW
from workbench.propagation.module.prepare_module import ID

MOST_BYTES = 8 << 30
"""Bytes of memory that a recording may take: a GPT-3 of 96 unrolled layers takes about 1 GiB."""

IDLE = 300
"""Seconds without a request after which the process ends."""

INSERTED = -1  # the number of an operation that is not the program's
NONE = -1  # the index of a text that does not exist


class RecordedOp(NamedTuple):
    """What propagation left on one operation; texts are indices into the table of `Recording`.

    - `number`: of the program's operation, or `INSERTED`; `group`: of a sharding group;
    - `kind`, `operand`: for an inserted one its name, and what it reads: an operation and its result, an argument (`-1, position`), or an
      operation inserted before (`-2, position`).
    """

    number: int
    sharding: int
    edges: int
    group: int = NONE
    kind: str = ""
    operand: tuple[int, int] = (NONE, NONE)


class Recording(NamedTuple):
    """A propagated module as plain values: the texts of attributes, each once; the arguments' shardings; the results' shardings and edges;
    the operations in their order."""

    texts: list[str]
    arguments: list[int]
    results: list[tuple[int, int]]
    operations: list[RecordedOp]


def receive(stream: BinaryIO) -> bytes | None:
    """The next frame; `None` if the other end is gone."""
    size = stream.read(8)
    body = stream.read(int.from_bytes(size, "big")) if len(size) == 8 else b""
    return body if len(size) == 8 and len(body) == int.from_bytes(size, "big") else None


def send(stream: BinaryIO, *frames: bytes) -> None:
    for each in frames:
        stream.write(len(each).to_bytes(8, "big"))
        stream.write(each)
    stream.flush()


def read_recording(text: bytes) -> Recording:
    """Parse what `answer` wrote."""
    texts, arguments, results, operations = json.loads(text)
    return Recording(texts, arguments, results, [RecordedOp(*each) for each in operations])


def answer(passes: str, module: bytes) -> tuple[bytes, bytes]:
    """`done` and the recording of a module after the passes, or `error` and MLIR's message."""
    try:
        parsed = parse_module(module)
        with parsed.context, ir.Location.unknown():
            run_passes(parsed.operation, passes)
            return b"done", json.dumps(_RecordingWriter().build_recording(parsed.operation)).encode()
    except ir.MLIRError as error:
        return b"error", str(error).encode()


class _RecordingWriter:
    def __init__(self) -> None:
        self._positions: dict[ir.Attribute, int] = {}
        self._texts: list[str] = []
        self._inserted: dict[ir.Operation, int] = {}

    def build_recording(self, module: ir.Operation) -> Recording:
        main = main_function(module)
        arguments, results = ([ir.DictAttr(each) for each in ir.ArrayAttr(main.attributes[side])] for side in ("arg_attrs", "res_attrs"))
        return Recording(
            self._texts,
            [self._text_index(each, "sdy.sharding") for each in arguments],
            [(self._text_index(each, "sdy.sharding"), self._text_index(each, "sdy.propagation_edges")) for each in results],
            list(self._record_block(main.regions[0].blocks[0])),
        )

    def _text_index(self, attributes: Any, name: str) -> int:
        """The index of an attribute's text; each attribute is printed once, for printing takes most of the time here."""
        try:
            attribute = attributes[name]
        except KeyError:
            return NONE
        position = self._positions.setdefault(attribute, len(self._texts))
        if position == len(self._texts):
            self._texts.append(str(attribute))
        return position

    def _record_block(self, block: ir.Block) -> Iterator[RecordedOp]:
        for each in block.operations:
            op = each.operation
            yield self._record_operation(op)
            if op.name in CONTROL_FLOW:
                for region in op.regions:
                    for inner in region.blocks:
                        yield from self._record_block(inner)

    def _record_operation(self, op: ir.Operation) -> RecordedOp:
        attributes = op.attributes
        sharding = self._text_index(attributes, "sdy.sharding")
        if sharding == NONE:
            sharding = self._text_index(attributes, "sharding")  # of a constraint, of a data flow edge
        edges = self._text_index(attributes, "sdy.propagation_edges")
        group = ir.IntegerAttr(attributes["group_id"]).value if op.name == "sdy.sharding_group" else NONE
        try:
            return RecordedOp(attributes[ID].value, sharding, edges, group)
        except KeyError:
            return RecordedOp(INSERTED, sharding, edges, group, op.name, self._number_inserted(op))

    def _number_inserted(self, op: ir.Operation) -> tuple[int, int]:
        """Number an inserted operation; returns what it reads."""
        if len(op.results):
            self._inserted[op] = len(self._inserted)
        maker = producer(op.operands[0])
        if maker is None:
            return -1, ir.BlockArgument(op.operands[0]).arg_number
        if ID not in maker.attributes:
            return -2, self._inserted[maker]
        return maker.attributes[ID].value, ir.OpResult(op.operands[0]).result_number


def _next(stream: BinaryIO) -> bytes | None:
    """The first frame of the next request; `None` if there will be none, or was none for long."""
    return receive(stream) if wait_for_input(stream.fileno(), IDLE) else None  # nothing is buffered: the client waits for the answer


def main(seconds: int) -> None:
    """Answer requests until standard input ends; the alarm ends the process if a request takes too long, also when its parent is gone."""
    end_with_parent(sys.stdin.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for whoever asked
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is not part of the answer
    limit_data(MOST_BYTES)
    context()
    while (passes := _next(sys.stdin.buffer)) is not None and (module := receive(sys.stdin.buffer)) is not None:
        set_alarm(seconds)
        found = answer(passes.decode(), module)
        set_alarm(0)
        send(answers, *found)


if __name__ == "__main__":
    main(int(sys.argv[1]))
