"""Rate limits on password guessing: after a number of failures, each further attempt doubles the wait.

Failures count for a name from an address, for a name from all addresses, and for an address with all names. Guessing
one account from a classroom slows down guesses at that account there, and does not keep others in the class from
signing in.

Counts are kept in memory: a restart resets them, and an attacker cannot restart the server. The tables are bounded.
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
"""Maximum number of keys per limit; the key whose last failure is oldest is dropped first."""


class TooManyAttemptsError(WorkbenchError):
    """An attempt came too soon after failures; `seconds` is the remaining wait."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        super().__init__(f"Too many failed attempts. Try again in {seconds} s.", ["wait", "ask an administrator for an invitation"])


@dataclass(frozen=True, slots=True)
class Allowance:
    """Parameters of a limit: `free` failures without a wait, then a wait of `first` seconds that doubles up to
    `longest`. One failure is forgotten every `forgotten` seconds.
    """

    free: int
    first: float
    longest: float
    forgotten: float

    def delay(self, failures: float) -> float:
        """Return the wait in seconds after a number of failures.

        >>> [Allowance(3, 1, 10, 60).delay(failures) for failures in (3, 4, 5, 8, 9999)]
        [0.0, 1, 2, 10, 10]
        """
        beyond = failures - self.free
        return 0.0 if beyond <= 0 else min(self.longest, self.first * 2 ** min(beyond - 1, 40))

    @property
    def most(self) -> float:
        """The maximum failure count, so that a long attack is not remembered for longer than a short one."""
        return self.free + 1 + math.log2(self.longest / self.first)


BY_PAIR = Allowance(free=5, first=1.0, longest=60.0, forgotten=600.0)
"""For a name from an address. One guess a minute finds no password of twelve characters, and guessing locks out only
that name at that address.
"""
BY_NAME = Allowance(free=50, first=1.0, longest=60.0, forgotten=30.0)
"""For a name from all addresses. One address at its slowest does not use it up, so that the owner can sign in
elsewhere.
"""
BY_ADDRESS = Allowance(free=100, first=1.0, longest=60.0, forgotten=10.0)
"""For an address with all names, because a class may share one. Guessing at five names from it does not use it up."""


def address_key(address: str) -> str:
    """Return the key of an address: for IPv6 its /64 network, because a household has 2**64 addresses.

    >>> address_key("192.0.2.7"), address_key("2001:db8::7"), address_key("/run/socket")
    ('192.0.2.7', '2001:db8::/64', '/run/socket')
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return address[:100]
    return str(parsed) if parsed.version == 4 else str(ip_network((parsed, 64), strict=False))


class AttemptLimit:
    """Failure counts by key. An attempt counts from its start, so that concurrent attempts do not bypass the limit."""

    def __init__(self, allowance: Allowance, clock: Callable[[], float] = time.monotonic) -> None:
        self._allowance, self._clock = allowance, clock
        self._failures: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # count and time of the last failure

    def seconds_left(self, key: Hashable) -> float:
        """Return the seconds until the next attempt is allowed; zero or negative if it is now."""
        failures, last = self._failures.get(key, (0.0, -math.inf))
        return last + self._allowance.delay(failures) - self._clock()

    def begin(self, key: Hashable) -> None:
        if (wait := self.seconds_left(key)) > 0:
            raise TooManyAttemptsError(math.ceil(wait))
        failures, last = self._failures.get(key, (0.0, -math.inf))
        present = self._clock()
        remembered = max(0.0, failures - (present - last) / self._allowance.forgotten)
        self._failures[key] = (min(remembered + 1, self._allowance.most), present)
        self._failures.move_to_end(key)
        while len(self._failures) > MOST_KEYS:
            self._failures.popitem(last=False)

    def succeed(self, key: Hashable) -> None:
        self._failures.pop(key, None)

    def forgive(self, key: Hashable) -> None:
        """Uncount the latest attempt, keeping earlier failures."""
        failures, last = self._failures.get(key, (0.0, 0.0))
        if failures > 1:
            self._failures[key] = (failures - 1, last)
        else:
            self._failures.pop(key, None)


class SignInLimits:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._pairs, self._names, self._addresses = (AttemptLimit(allowance, clock) for allowance in (BY_PAIR, BY_NAME, BY_ADDRESS))

    @contextmanager
    def attempt(self, name: str, address: str) -> Iterator[None]:
        """Limit a password check; only a wrong password counts. Raises `TooManyAttemptsError`, which is not counted."""
        pair = name.lower(), address_key(address)
        shared = [(self._names, pair[0]), *([(self._addresses, pair[1])] if address else [])]  # an unknown address cannot be counted
        limits: list[tuple[AttemptLimit, Hashable]] = [(self._pairs, pair), *shared]
        if (wait := max(limit.seconds_left(key) for limit, key in limits)) > 0:
            raise TooManyAttemptsError(math.ceil(wait))
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
            limit.forgive(key)  # one valid account must not reset the counts of guesses at others
