"""Set up and serve the team server. This process imports neither JAX nor user code."""

import functools
import gc
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

from workbench.app.page.guarded_server import guarded_server
from workbench.app.page.private_members import tornado_of
from workbench.app.page.request_policy import METHODS, UNKNOWN_HOST, UNKNOWN_ORIGIN, DeniedRequest, Hosts, allowed_hosts, judge_request
from workbench.app.page.shutdown import serve_until_signal
from workbench.team.accounts.bokeh_auth_provider import bind_sessions, expire_abandoned_sessions, session_options
from workbench.team.accounts.login_handlers import account_routes
from workbench.team.accounts.revocations import Revocations
from workbench.team.accounts.sign_in_flow import load_secret_key
from workbench.team.actions.check_inputs import load_validators
from workbench.team.actions.classes.baselines import SearchedBaselines
from workbench.team.api.api_routes import api_routes
from workbench.team.data_folder import private_data
from workbench.team.pages.page_routes import page_routes
from workbench.team.programs.program_registry import ProgramRegistry
from workbench.team.rooms.planners import Planners
from workbench.team.rooms.room_hub import PATH, RoomHub, room_page
from workbench.team.rooms.stored_room_actions import RoomJobs
from workbench.team.sandbox.probe_sandbox import probe
from workbench.team.sandbox.sandbox import Sandbox
from workbench.team.store.database_errors import explain_database_errors
from workbench.team.store.migrate import upgrade
from workbench.team.store.store import Store, claim_store
from workbench.team.team_config import FILE, TeamConfig
from workbench.team.team_setup import (
    ProgramService,
    make_dispatcher,
    make_fetch_policy,
    make_sandbox_policy,
    make_sign_in_methods,
    owners_approve,
)
from workbench.team.web.application import application_settings, health_routes
from workbench.team.web.team_services import TeamServices

ROOM_PREFIX = "/room/"
_UNKNOWN = DeniedRequest(403, f"This server does not accept this host name. Its operator can set `address` or `origins` in {FILE}.")


class TeamServer:
    """A configured server: `services`, and resources that `close` releases in reverse order."""

    def __init__(self, config: TeamConfig) -> None:
        self.config = config
        self._ending = ExitStack()
        try:
            self.services = self._begin()
        except BaseException:
            self._ending.close()
            raise

    def _begin(self) -> TeamServices:
        config = self.config
        self._ending.enter_context(private_data(config.data))
        store = Store.open(config.store_address)
        self._ending.callback(store.close)
        with explain_database_errors():
            self._ending.enter_context(claim_store(store, f"The server at {config.public_address}"))
            upgrade(store)
        secret_key = load_secret_key(config.data)
        ability = probe(policy=make_sandbox_policy(config))
        sandbox = Sandbox(ability)
        self._ending.callback(sandbox.close)
        programs = ProgramRegistry(store, config.data.resolve() / "programs", sandbox, make_fetch_policy(config))
        programs.clean()
        planners = Planners(programs, config.cluster)
        self._ending.callback(planners.close)
        self.hub = RoomHub(store, planners, config.public_address, idle_for=config.idle_seconds)
        self._ending.callback(self.hub.close)
        self.dispatcher = make_dispatcher(config, store, programs)
        program_service = ProgramService(programs, self.hub.end_program)
        self._ending.callback(program_service.close)
        services = TeamServices(
            store=store,
            revocations=Revocations(store),
            secret_key=secret_key,
            address=config.public_address,
            data=config.data,
            config=config,
            planner=planners,
            rooms=self.hub,
            jobs=self.dispatcher,
            programs=program_service,
            sandbox=ability,
            owners_approve=owners_approve(config),
            sign_in=make_sign_in_methods(config, store, secret_key),
            origins=config.origins,
            open_metrics=config.open_metrics,
            behind_proxy=config.behind_proxy,
        )
        jobs = RoomJobs(services)
        self.hub.use_jobs(jobs)
        self._ending.callback(self.dispatcher.listen(jobs.hear))
        self._ending.callback(self.dispatcher.listen(SearchedBaselines(services).hear))
        return services

    def bokeh_server(self) -> Any:
        load_validators()
        services, config = self.services, self.config
        routes = [*api_routes(), *account_routes(), *health_routes(), *page_routes()]
        server = guarded_server(
            {PATH: lambda: room_page(services.store, self.hub, f"{config.prefix}/healthz")},
            self._listen_options(),
            self._allowed(),
            routes=routes,
            judge=functools.partial(judge_team_request, prefix=config.prefix),
            prefix=config.prefix,
            **session_options(services),
        )
        bind_sessions(server)
        expire_abandoned_sessions(server)
        tornado_of(server).settings.update(application_settings(services))
        return server

    def close(self) -> None:
        """Release all resources. Can be called repeatedly."""
        self.dispatcher.stop()
        self.services.revocations.stop()
        self._ending.close()

    def _listen_options(self) -> dict[str, Any]:
        if self.config.unix_socket:
            return {"unix_socket": self.config.unix_socket}
        host, port = self.config.port
        return {"address": host, "port": port}

    def _allowed(self) -> Hosts:
        public = urlsplit(self.config.public_address)
        origins = (f"{public.scheme}://{public.netloc}", *self.config.origins)
        host, port = ("localhost", 80) if self.config.unix_socket else self.config.port
        return allowed_hosts(host, port, origins)


def judge_team_request(method: str, headers: Mapping[str, str], path: str, allowed: Hosts | None, *, prefix: str) -> DeniedRequest | None:
    """Return why a request is denied. Only room pages get all checks: other handlers check changes themselves."""
    if path.startswith(prefix + ROOM_PREFIX):
        denial = judge_request(method, headers, path, allowed)
    else:
        denial = judge_request(METHODS[0], _without_site(headers), path, allowed)
    return _UNKNOWN if denial in (UNKNOWN_HOST, UNKNOWN_ORIGIN) else denial


def _without_site(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Drop the `Sec-Fetch-*` headers: `web.security.verify_origin` checks them, with its own message."""
    return {name: value for name, value in headers.items() if not name.lower().startswith("sec-fetch-")}


def serve(config: TeamConfig, *, on_ready: Callable[[TeamServices], None] = lambda _: None) -> None:
    """Serve until an interrupt or SIGTERM; `on_ready` is called when listening. Raises `WorkbenchError`."""
    team = TeamServer(config)
    try:
        serve_until_signal(functools.partial(_start, team, on_ready), team.close, config.unix_socket)
    finally:
        team.close()


def _start(team: TeamServer, on_ready: Callable[[TeamServices], None]) -> Any:
    server = team.bokeh_server()

    async def begin() -> None:
        team.services.revocations.start()
        team.dispatcher.start()
        gc.collect()
        gc.freeze()  # Panel collects garbage whenever a page closes; freezing permanent objects avoids a 0.1 s pause for everybody
        on_ready(team.services)

    server.io_loop.add_callback(begin)
    return server
