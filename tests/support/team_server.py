"""A team's server on the loopback address, with its store in a folder, in a thread of the test's process; and clients that call it."""

import asyncio
import re
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import httpx
from argon2 import PasswordHasher
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from workbench.team.accounts.jupyterhub_login import SignInWays
from workbench.team.accounts.login_handlers import account_routes
from workbench.team.accounts.logins import issue_login
from workbench.team.accounts.passwords import LocalAccounts
from workbench.team.accounts.revocations import Revocations
from workbench.team.accounts.sign_in_flow import FlowCookies
from workbench.team.accounts.user_accounts import add_user
from workbench.team.store.store import Store
from workbench.team.store.tables import Base
from workbench.team.web.application import application_settings, health_routes
from workbench.team.web.team_services import TeamServices

PASSWORD = "correct horse battery"
KEY = b"k" * 32


def quick_hasher() -> PasswordHasher:
    """Argon2 with the least work: what is tested is not how slow it is."""
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@cache
def _empty_tables() -> bytes:
    """The file of a database with all tables: to copy it is quicker than to make them."""
    with TemporaryDirectory() as folder:
        store = Store.open(f"sqlite:///{folder}/team.db")
        Base.metadata.create_all(store.engine)
        store.close()
        return Path(folder, "team.db").read_bytes()


def new_store(folder: Path, content: bytes | None = None, kind: type[Store] = Store) -> Store:
    """An empty store with its tables, or one with the content of another's file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "team.db").write_bytes(_empty_tables() if content is None else content)
    return kind.open(f"sqlite:///{folder}/team.db")


def make_services(folder: Path, store: Store | None = None, address: str = "http://localhost:5007", **others: Any) -> TeamServices:
    """Services with local accounts."""
    store = store or new_store(folder)
    ways = SignInWays(FlowCookies(KEY), LocalAccounts(store, quick_hasher()))
    return TeamServices(
        **{
            "store": store,
            "revocations": Revocations(store),
            "secret_key": KEY,
            "address": address,
            "data": folder,
            "sign_in": ways,
            **others,
        }
    )


def add_person(store: Store, name: str, *, admin: bool = False, password: str = "") -> str:
    """A person's id."""
    with store.write() as session:
        user = add_user(session, name, name.title(), admin=admin)
        if password:
            accounts = LocalAccounts(store, quick_hasher())
            accounts.set(session, user, accounts.hash(name, password))
        return user.id


def sign_in(store: Store, user_id: str, way: str = "local") -> str:
    """The cookie of a new login."""
    with store.write() as session:
        return issue_login(session, user_id, way)


@dataclass
class ServerThread:
    """An event loop in a thread."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        return self

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """What a coroutine gives in the server's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(20)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function gives in the server's loop."""

        async def work() -> Any:
            return function(*arguments)

        return self.run(work())

    def __exit__(self, *_error: object) -> None:
        self.run(self._cancel_tasks())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(20)
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    async def _cancel_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True)
class RunningServer:
    """`url` is where it listens, `services.address` where it says it is."""

    services: TeamServices
    url: str
    thread: ServerThread

    @property
    def origin(self) -> str:
        return next(iter(sorted(self.services.own_origins)))

    def client(self, cookie: str = "", **headers: str) -> httpx.Client:
        """A browser: it says where its requests are from, and follows no redirect by itself."""
        cookies = {self.services.cookie_name: cookie} if cookie else {}
        return httpx.Client(base_url=self.url, cookies=cookies, headers={"Origin": self.origin} | headers, timeout=20, verify=False)

    def person(self, name: str, *, admin: bool = False) -> httpx.Client:
        """The browser of a new person who is signed in."""
        return self.client(sign_in(self.services.store, add_person(self.services.store, name, admin=admin)))


@contextmanager
def team_server(folder: Path, routes: list[Any] | None = None, *, address: str = "", **services: Any) -> Iterator[RunningServer]:
    """A server with the pages of accounts and of its health, and further `routes`. It says that it is at `address`, unless that is empty:
    then where it listens."""
    with ServerThread() as thread:
        sock, port = bind_unused_port()
        made = make_services(folder, address=address or f"http://localhost:{port}", **services)
        server = thread.call(_listen, made, [*(routes or []), *account_routes(), *health_routes()], sock)
        try:
            yield RunningServer(made, f"http://127.0.0.1:{port}", thread)
        finally:
            thread.call(server.stop)
            thread.run(server.close_all_connections())
            made.store.close()


def _listen(services: TeamServices, routes: list[Any], sock: Any) -> HTTPServer:
    services.revocations.start()
    prefixed = [(re.escape(services.prefix) + pattern, *rest) for pattern, *rest in routes]
    server = HTTPServer(Application(prefixed, **application_settings(services)))
    server.add_sockets([sock])
    return server


def use_ways(server: RunningServer, **ways: Any) -> None:
    """Have a server that runs offer other ways to sign in."""
    object.__setattr__(server.services, "sign_in", replace(server.services.sign_in, **ways))


def stopped_clock() -> float:
    """Of a limit that is not to depend on how fast the test goes."""
    return 1000.0
