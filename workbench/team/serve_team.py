"""The server of a team: its pages and its API, the rooms, and what they work with. It imports neither JAX nor anybody's code."""

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
from workbench.team.accounts.bokeh_auth_provider import bind_sessions, end_left_sessions, session_options
from workbench.team.accounts.external_login_handlers import account_routes
from workbench.team.accounts.revocations import Revocations
from workbench.team.accounts.sign_in_flow import load_secret_key
from workbench.team.actions.check_inputs import load_validators
from workbench.team.actions.classes.searched_baselines import SearchedBaselines
from workbench.team.api.api_routes import api_routes
from workbench.team.data_folder import private_data
from workbench.team.job_setup import make_dispatcher
from workbench.team.pages.page_routes import page_routes
from workbench.team.program_setup import ProgramService, make_fetch_policy, make_sandbox_policy, owners_approve
from workbench.team.programs.program_registry import ProgramRegistry
from workbench.team.rooms.planners import Planners
from workbench.team.rooms.room_hub import PATH, RoomHub, room_page
from workbench.team.rooms.stored_room_actions import RoomJobs
from workbench.team.sandbox.probe_sandbox import probe
from workbench.team.sandbox.sandbox import Sandbox
from workbench.team.sign_in_setup import sign_in_ways
from workbench.team.store.database_errors import explain_database_errors
from workbench.team.store.migrate import upgrade
from workbench.team.store.store import Store, claim_store
from workbench.team.team_config import FILE, TeamConfig
from workbench.team.web.application import application_settings, health_routes
from workbench.team.web.team_services import TeamServices

ROOM_PREFIX = "/room/"
_UNKNOWN = DeniedRequest(403, f"This server does not accept this host name. Its operator can set `address` or `origins` in {FILE}.")


class TeamServer:
    """A server that is set up: `services`, and what `close` ends, the last begun first."""

    def __init__(self, config: TeamConfig) -> None:
        """Open the store and begin the processes. Raises `WorkbenchError` for a set-up that cannot be served."""
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
            sign_in=sign_in_ways(config, store, secret_key),
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
        """The server of Panel, listening but not started."""
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
        end_left_sessions(server)
        tornado_of(server).settings.update(application_settings(services))
        return server

    def close(self) -> None:
        """End everything that it began. May be called again."""
        self.dispatcher.stop()
        self.services.revocations.stop()
        self._ending.close()

    def _listen_options(self) -> dict[str, Any]:
        if self.config.unix_socket:
            return {"unix_socket": self.config.unix_socket}
        host, port = self.config.port
        return {"address": host, "port": port}

    def _allowed(self) -> Hosts:
        """The hosts that it answers under: that of its address, and those that the set-up names."""
        public = urlsplit(self.config.public_address)
        named = (f"{public.scheme}://{public.netloc}", *self.config.origins)
        host, port = ("localhost", 80) if self.config.unix_socket else self.config.port
        return allowed_hosts(host, port, named)


def judge_team_request(method: str, headers: Mapping[str, str], path: str, allowed: Hosts | None, *, prefix: str) -> DeniedRequest | None:
    """Why a request is denied, or `None`. The handlers of the team's own pages judge by themselves what changes something; the pages of
    rooms are held to what a served board is."""
    if path.startswith(prefix + ROOM_PREFIX):
        found = judge_request(method, headers, path, allowed)
    else:
        found = judge_request(METHODS[0], _without_site(headers), path, allowed)
    return _UNKNOWN if found in (UNKNOWN_HOST, UNKNOWN_ORIGIN) else found


def _without_site(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Without what says which site's page asks: `web.security.verify_origin` judges that, and has words for it."""
    return {name: value for name, value in headers.items() if not name.lower().startswith("sec-fetch-")}


def serve(config: TeamConfig, *, on_ready: Callable[[TeamServices], None] = lambda _: None) -> None:
    """Serve a team until interrupted, or ended with SIGTERM. `on_ready` is called once it listens. Raises `WorkbenchError` for a set-up
    that cannot be served."""
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
        gc.freeze()  # Panel collects after each page that is closed: without what stays, that takes no tenth of a second of everybody's
        on_ready(team.services)

    server.io_loop.add_callback(begin)
    return server
