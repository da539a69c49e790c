"""Simulate one iteration: kernels in order, overlapped collectives, nothing before the host launches it.

If the host launches every kernel (`Runtime`), it runs ahead of the device as far as possible; over the iterations of a
loop the slower of the two counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple


class Send(NamedTuple):
    """A collective that may start after `after` kernels and is read by kernel `before`; `floats`: `simulate_overlap`."""

    after: int
    before: int
    seconds: float
    links: tuple[str, ...]
    overlaps: bool
    floats: bool = False


@dataclass(frozen=True, slots=True)
class SimulatedTurn:
    """One iteration: total `seconds`, `starts` and `waits` of each send, waiting for the `host`, and item `begins`."""

    seconds: float
    starts: tuple[float, ...]
    waits: tuple[float, ...]
    host: float = 0.0
    begins: tuple[float, ...] = ()

    @property
    def exposed(self) -> float:
        return sum(self.waits)


class HostCalls(NamedTuple):
    """Launch times of each item and send of a region by the host, in seconds from its start; `total` for all."""

    items: tuple[float, ...]
    sends: tuple[float, ...]
    total: float
    loops: frozenset[int] = frozenset()  # items that are loops, launched once their last iteration is


def simulate(kernels: Sequence[float], sends: Sequence[Send], calls: HostCalls | None = None) -> SimulatedTurn:
    """Schedule `sends` beside `kernels` (seconds, in order), nothing before the host launches it.

    kernels   | k0 |   k1   |....wait....| k2 |
    links          |   send after=1, before=2  |

    >>> simulate([1.0, 2.0, 1.0], [Send(1, 2, 5.0, ("data",), overlaps=True)])
    SimulatedTurn(seconds=7.0, starts=(1.0,), waits=(3.0,), host=0.0, begins=())
    >>> simulate([1.0, 2.0, 1.0], [Send(1, 2, 5.0, ("data",), overlaps=False)]).seconds
    9.0
    >>> simulate([1.0, 1.0], [], HostCalls((0.5, 4.0), (), 4.0))
    SimulatedTurn(seconds=5.0, starts=(), waits=(), host=3.0, begins=(0.5, 4.0))
    """
    clock = _Device(kernels) if calls is None else _CalledDevice(kernels, calls)
    starts, waits, ends, host_delays = ([0.0] * len(sends) for _ in range(4))
    free: dict[str, float] = {}
    for place, _, _, number, is_wait in sorted(_moments(sends)):
        send, now = sends[number], clock.at(place)
        if is_wait:
            waited = max(0.0, ends[number] - now)
            clock.wait(waited)
            waits[number] = max(waited - host_delays[number], 0.0)  # the rest is waiting for the host
        else:
            possible = max([now, *(free.get(link, 0.0) for link in send.links)])
            starts[number] = max(possible, calls.sends[number]) if calls else possible
            host_delays[number] = starts[number] - possible
            ends[number] = starts[number] + send.seconds
            free.update(dict.fromkeys(send.links, ends[number]))
    seconds = clock.at(len(kernels))
    host = max(seconds - sum(kernels) - sum(waits), 0.0) if calls else 0.0
    return SimulatedTurn(seconds, tuple(starts), tuple(waits), host, tuple(clock.begins))


class _Device:
    """The time on a device after a number of its kernels."""

    def __init__(self, kernels: Sequence[float]) -> None:
        self._done, self._waited = [0.0, *accumulate(kernels)], 0.0
        self.begins: list[float] = []

    def at(self, place: int) -> float:
        return self._done[place] + self._waited

    def wait(self, seconds: float) -> None:
        self._waited += seconds


class _CalledDevice(_Device):
    """The time on a device whose kernels the host launches."""

    def __init__(self, kernels: Sequence[float], calls: HostCalls) -> None:
        self._kernels, self._calls, self._now, self._place = kernels, calls, 0.0, 0
        self.begins = []

    def at(self, place: int) -> float:
        for item in range(self._place, place):
            called, is_loop = self._calls.items[item], item in self._calls.loops
            self.begins.append(self._now if is_loop else max(self._now, called))
            self._now = max(self.begins[-1] + self._kernels[item], called)
        self._place = max(self._place, place)
        return self._now

    def wait(self, seconds: float) -> None:
        self._now += seconds


def _moments(sends: Sequence[Send]) -> list[tuple[int, int, int, int, bool]]:
    """List (kernels done, phase, kernels when awaited, send number, is awaited).

    At each place awaited sends come first, then sends that block, then overlapped sends, sooner needed first.
    """
    moments = []
    for number, send in enumerate(sends):
        awaited = max(send.after, send.before)
        started = send.after if send.overlaps else awaited  # without overlap it starts when needed
        blocks = awaited == started
        moments.append((started, 1 if blocks else 2, awaited, number, False))
        moments.append((awaited, int(blocks), awaited, number, True))
    return moments


def busiest_link(sends: Sequence[Send], seconds: Sequence[float]) -> float:
    """Return the seconds of the busiest link, given the seconds of each send."""
    by_link: dict[str, float] = {}
    for send, duration in zip(sends, seconds, strict=True):
        for link in send.links:
            by_link[link] = by_link.get(link, 0.0) + duration
    return max(by_link.values(), default=0.0)


def simulate_called(items: Sequence[float], sends: Sequence[Send], calls: HostCalls, *, is_loop: bool) -> SimulatedTurn:
    """Simulate one iteration with launches; over a loop the host runs ahead, or the device waits in each iteration."""
    if not is_loop:
        return simulate(items, sends, calls)
    turn = simulate(items, sends)
    waited = max(calls.total - turn.seconds, 0.0)
    return replace(turn, seconds=turn.seconds + waited, host=waited)


def apply_overlap_slowdown(turn: SimulatedTurn, kernels: Sequence[float], sends: Sequence[Send], share: float) -> SimulatedTurn:
    """Slow kernels down to `share` of their speed while collectives run beside them.

    The loss first fills time that the device waits anyway, for a collective or the host; the rest counts as waiting for
    the hidden collectives.

    >>> apply_overlap_slowdown(simulate([10.0], [Send(0, 1, 5.0, ("a",), True)]), [10.0], [Send(0, 1, 5.0, ("a",), True)], 0.5).seconds
    12.5
    >>> apply_overlap_slowdown(simulate([5.0], [Send(0, 1, 10.0, ("a",), True)]), [5.0], [Send(0, 1, 10.0, ("a",), True)], 0.4).seconds
    10.0
    """
    hidden = [max(send.seconds - wait, 0.0) * send.overlaps for send, wait in zip(sends, turn.waits, strict=True)]
    beside = min(busiest_link(sends, hidden), sum(kernels))
    lost = max(beside * (1 - share) - turn.exposed - turn.host, 0.0)
    if not lost:
        return turn
    waits = tuple(wait + lost * seconds / sum(hidden) for wait, seconds in zip(turn.waits, hidden, strict=True))
    return replace(turn, seconds=turn.seconds + lost, waits=waits)
