"""Ports, and waiting for a server to come up."""

import socket
import time
import urllib.error
import urllib.request


def answers(url: str) -> bool:
    """Whether a server answers at `url`, be it with an error of HTTP."""
    try:
        urllib.request.urlopen(url, timeout=30).close()
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):  # `ValueError` of what is no address of a server
        return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(url: str) -> None:
    """Wait a minute at most until `url` answers."""
    for _ in range(1200):
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"{url} did not come up")
