"""How often somebody may guess: after some failures each further attempt waits twice as long.

Counted for a name from an address, for a name from everywhere, and for an address with every name: whoever guesses at one account from a
classroom slows down guesses at that account there, and keeps nobody else of the class from signing in.

Kept in memory: a restart forgives, and an attacker cannot restart the server. The tables are bounded, whatever names are sent.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from workbench.errors import WorkbenchError
from workbench.team.accounts.passwords import WrongPasswordError

MOST_KEYS = 10_000
"""Names or addresses that each limit remembers; the one that failed longest ago is forgotten first."""


class TooManyAttemptsError(WorkbenchError):
    """An attempt came too soon after others failed; `seconds` is the time to wait."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        super().__init__(f"Too many failed attempts. Try again in {seconds} s.", ["wait", "ask an administrator for an invitation"])


@dataclass(frozen=True, slots=True)
class Allowance:
    """`free` failures cost nothing; the one after them `first` seconds, each further one twice the one before, up to `longest`. One failure
    is forgotten every `forgotten` seconds."""

    free: int
    first: float
    longest: float
    forgotten: float

    def delay(self, failures: float) -> float:
        """Seconds to wait after a number of failures.

        >>> [Allowance(3, 1, 10, 60).delay(failures) for failures in (3, 4, 5, 8, 9999)]
        [0.0, 1, 2, 10, 10]
        """
        beyond = failures - self.free
        return 0.0 if beyond <= 0 else min(self.longest, self.first * 2 ** min(beyond - 1, 40))

    @property
    def most(self) -> float:
        """Failures after which further ones change nothing, so that a long attack is not remembered for longer than a short one."""
        return self.free + 1 + math.log2(self.longest / self.first)


BY_PAIR = Allowance(free=5, first=1.0, longest=60.0, forgotten=600.0)
"""Of a name from an address. A guess a minute finds no password of twelve characters, and whoever guesses locks out only that name, and
only where they are."""
BY_NAME = Allowance(free=50, first=1.0, longest=60.0, forgotten=30.0)
"""Of a name from all addresses together: one address at its slowest does not use it up, so that the owner signs in elsewhere."""
BY_ADDRESS = Allowance(free=100, first=1.0, longest=60.0, forgotten=10.0)
"""Of an address for all names together: a class may share one. Five names that are guessed at from it do not use it up."""


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
        self._failures: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # how many, and when the last one was

    def seconds_left(self, key: Hashable) -> float:
        """Seconds until the next attempt may begin; not above 0 if it may now."""
        failures, last = self._failures.get(key, (0.0, -math.inf))
        return last + self._allowance.delay(failures) - self._clock()

    def begin(self, key: Hashable) -> None:
        """Begin an attempt. Raises `TooManyAttemptsError` if it is too soon."""
        if (left := self.seconds_left(key)) > 0:
            raise TooManyAttemptsError(math.ceil(left))
        failures, last = self._failures.get(key, (0.0, -math.inf))
        present = self._clock()
        remembered = max(0.0, failures - (present - last) / self._allowance.forgotten)
        self._failures[key] = (min(remembered + 1, self._allowance.most), present)
        self._failures.move_to_end(key)
        while len(self._failures) > MOST_KEYS:
            self._failures.popitem(last=False)

    def succeed(self, key: Hashable) -> None:
        """The attempt that was begun succeeded: its failures are forgotten."""
        self._failures.pop(key, None)

    def forgive(self, key: Hashable) -> None:
        """The attempt that was begun is no failure; those before it are."""
        failures, last = self._failures.get(key, (0.0, 0.0))
        if failures > 1:
            self._failures[key] = (failures - 1, last)
        else:
            self._failures.pop(key, None)


class SignInLimits:
    """How often passwords may be guessed: for a name from an address, for a name, and from an address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._pairs, self._names, self._addresses = (AttemptLimit(each, clock) for each in (BY_PAIR, BY_NAME, BY_ADDRESS))

    @contextmanager
    def attempt(self, name: str, address: str) -> Iterator[None]:
        """Within it a password is verified; a wrong one is a failure, and nothing else is. Raises `TooManyAttemptsError`, and then no limit
        has counted it."""
        pair = name.lower(), address_key(address)
        shared = [(self._names, pair[0]), *([(self._addresses, pair[1])] if address else [])]  # of an unknown one nothing can be counted
        limits: list[tuple[AttemptLimit, Hashable]] = [(self._pairs, pair), *shared]
        if (left := max(limit.seconds_left(key) for limit, key in limits)) > 0:
            raise TooManyAttemptsError(math.ceil(left))
        for limit, key in limits:
            limit.begin(key)
        try:
            yield
        except WrongPasswordError:
            raise
        except BaseException:
            for limit, key in limits:
                limit.forgive(key)
            raise
        self._pairs.succeed(pair)
        for limit, key in shared:
            limit.forgive(key)  # whoever has one account may still be guessing others
