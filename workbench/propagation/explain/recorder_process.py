"""The process that runs Shardy's recording passes: `python -m workbench.propagation.explain.recorder_process SECONDS`.

Shardy keeps records of operations that it may have erased, which can crash the process; the client (`recorder_client`)
restarts it. A request on standard input is two frames, the passes and a module as bytecode; an answer is two, `done` or
`error` and a text. A frame is its length in eight bytes, then the bytes. The process ends with its standard input,
after an idle time, to free its memory, or when a request exceeds its time limit.
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
"""Memory limit of a recording in bytes; a GPT-3 of 96 unrolled layers takes about 1 GiB."""

IDLE = 300
"""Idle seconds after which the process ends."""

INSERTED = -1  # the number of an operation that the plan inserted
NONE = -1  # no text, no group


class RecordedOp(NamedTuple):
    """The result of propagation on one operation; texts are indices into `Recording.texts`.

    - `number`: the program's operation, or `INSERTED`; `group`: the id of a sharding group;
    - `kind`, `operand`: for an inserted operation its name, and its operand: an operation and its result, an argument
      (`-1, position`), or an earlier inserted operation (`-2, position`).
    """

    number: int
    sharding: int
    edges: int
    group: int = NONE
    kind: str = ""
    operand: tuple[int, int] = (NONE, NONE)


class Recording(NamedTuple):
    """A propagated module: deduplicated texts, shardings of arguments, shardings and edges of results, and operations."""

    texts: list[str]
    arguments: list[int]
    results: list[tuple[int, int]]
    operations: list[RecordedOp]


def receive(stream: BinaryIO) -> bytes | None:
    """The next frame, or `None` if the other end is closed."""
    size = stream.read(8)
    body = stream.read(int.from_bytes(size, "big")) if len(size) == 8 else b""
    return body if len(size) == 8 and len(body) == int.from_bytes(size, "big") else None


def send(stream: BinaryIO, *frames: bytes) -> None:
    for frame in frames:
        stream.write(len(frame).to_bytes(8, "big"))
        stream.write(frame)
    stream.flush()


def read_recording(text: bytes) -> Recording:
    """Parse the text that `answer` returned."""
    texts, arguments, results, operations = json.loads(text)
    return Recording(texts, arguments, results, [RecordedOp(*fields) for fields in operations])


def answer(passes: str, module: bytes) -> tuple[bytes, bytes]:
    """Run the passes on a module; returns `done` and the recording, or `error` and MLIR's message."""
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
        arguments, results = ([ir.DictAttr(attrs) for attrs in ir.ArrayAttr(main.attributes[side])] for side in ("arg_attrs", "res_attrs"))
        return Recording(
            self._texts,
            [self._text_index(attrs, "sdy.sharding") for attrs in arguments],
            [(self._text_index(attrs, "sdy.sharding"), self._text_index(attrs, "sdy.propagation_edges")) for attrs in results],
            list(self._record_block(main.regions[0].blocks[0])),
        )

    def _text_index(self, attributes: Any, name: str) -> int:
        """The index of an attribute's text; each attribute is printed once, as printing takes most of the time here."""
        try:
            attribute = attributes[name]
        except KeyError:
            return NONE
        position = self._positions.setdefault(attribute, len(self._texts))
        if position == len(self._texts):
            self._texts.append(str(attribute))
        return position

    def _record_block(self, block: ir.Block) -> Iterator[RecordedOp]:
        for item in block.operations:
            op = item.operation
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
        """Number an inserted operation; returns a reference to its operand."""
        if len(op.results):
            self._inserted[op] = len(self._inserted)
        maker = producer(op.operands[0])
        if maker is None:
            return -1, ir.BlockArgument(op.operands[0]).arg_number
        if ID not in maker.attributes:
            return -2, self._inserted[maker]
        return maker.attributes[ID].value, ir.OpResult(op.operands[0]).result_number


def _next(stream: BinaryIO) -> bytes | None:
    """The first frame of the next request; `None` at the end of the input or after the idle time."""
    return receive(stream) if wait_for_input(stream.fileno(), IDLE) else None  # nothing is buffered: the client waits for the answer


def main(seconds: int) -> None:
    """Answer requests until standard input ends; an alarm ends the process if one takes too long."""
    end_with_parent(sys.stdin.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client handles interrupts
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries' prints must not mix with the answers
    limit_data(MOST_BYTES)
    context()
    while (passes := _next(sys.stdin.buffer)) is not None and (module := receive(sys.stdin.buffer)) is not None:
        set_alarm(seconds)
        frames = answer(passes.decode(), module)
        set_alarm(0)
        send(answers, *frames)


if __name__ == "__main__":
    main(int(sys.argv[1]))
