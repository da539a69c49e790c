"""How often somebody may guess: after a few failures each further attempt waits twice as long, by name and by address.

Kept in memory: a restart forgives, and an attacker cannot restart the server. The tables are bounded, whatever names are sent.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from workbench.errors import WorkbenchError

MOST_KEYS = 10_000
"""Names or addresses that are remembered; the one that failed longest ago is forgotten first."""


class TooManyAttemptsError(WorkbenchError):
    """An attempt came too soon after others failed; `seconds` is the time to wait."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        super().__init__(
            f"There were too many attempts that failed. Try again in {seconds} s.", ["wait", "ask an administrator for an invitation"]
        )


@dataclass(frozen=True, slots=True)
class Allowance:
    """`free` failures cost nothing; the one after them `first` seconds, each further one twice the one before, up to `longest`. Failures
    are forgotten `forgotten` seconds after the last."""

    free: int
    first: float
    longest: float
    forgotten: float

    def delay(self, failures: int) -> float:
        """Seconds to wait after a number of failures.

        >>> [Allowance(3, 1, 10, 60).delay(failures) for failures in (3, 4, 5, 8, 9999)]
        [0.0, 1, 2, 10, 10]
        """
        beyond = failures - self.free
        return 0.0 if beyond <= 0 else min(self.longest, self.first * 2 ** min(beyond - 1, 40))


BY_NAME = Allowance(free=5, first=1.0, longest=60.0, forgotten=3600.0)
"""A guess a minute finds no password of twelve characters, and does not lock its owner out for longer."""
BY_ADDRESS = Allowance(free=20, first=1.0, longest=900.0, forgotten=3600.0)
"""More than for a name: a whole office may share an address."""


def address_key(address: str) -> str:
    """Whom an address counts as: of IPv6 the network, for a household has 2**64 addresses.

    >>> address_key("192.0.2.7"), address_key("2001:db8::7"), address_key("/run/socket")
    ('192.0.2.7', '2001:db8::/64', '/run/socket')
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return address[:100]
    return str(parsed) if parsed.version == 4 else str(ip_network((parsed, 64), strict=False))


class AttemptLimit:
    """The failures of one kind of key. An attempt counts as failed from its beginning, so that many at once are no way around it."""

    def __init__(self, allowance: Allowance, clock: Callable[[], float] = time.monotonic) -> None:
        self._allowance, self._clock = allowance, clock
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def begin(self, key: str) -> None:
        """Begin an attempt. Raises `TooManyAttemptsError` if it is too soon."""
        failures, last = self._failures.get(key, (0, -math.inf))
        present = self._clock()
        if present - last > self._allowance.forgotten:
            failures = 0
        wait = last + self._allowance.delay(failures) - present
        if wait > 0:
            raise TooManyAttemptsError(math.ceil(wait))
        self._failures[key] = (failures + 1, present)
        self._failures.move_to_end(key)
        while len(self._failures) > MOST_KEYS:
            self._failures.popitem(last=False)

    def succeed(self, key: str) -> None:
        """The attempt that was begun succeeded: its failures are forgotten."""
        self._failures.pop(key, None)

    def forgive(self, key: str) -> None:
        """The attempt that was begun is no failure; those before it are."""
        failures, last = self._failures.get(key, (0, 0.0))
        if failures > 1:
            self._failures[key] = (failures - 1, last)
        else:
            self._failures.pop(key, None)
