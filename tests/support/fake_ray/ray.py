"""As much of Ray as a relay needs, without a cluster: actors are objects of this process, their methods run in threads. Where Ray itself is
installed, the same tests are done with it."""

from concurrent.futures import ThreadPoolExecutor

_threads = ThreadPoolExecutor(8)


class Method:
    def __init__(self, method):
        self._method = method

    def remote(self, *arguments):
        return _threads.submit(self._method, *arguments)


class Handle:
    def __init__(self, actor):
        self._actor = actor

    def __getattr__(self, name):
        return Method(getattr(self._actor, name))


class Kind:
    def __init__(self, kind):
        self._kind = kind

    def remote(self, *arguments, **options):
        return Handle(self._kind(*arguments, **options))


def init(**options):
    assert options["address"] == "auto"


def remote(**options):
    assert options["num_cpus"] == 1
    return Kind


def get(answer, timeout=None):
    return answer.result(timeout)


def kill(handle):
    handle._actor._process.kill()
