"""All actions over HTTP: one handler class, with the actions of its address by method."""

from collections.abc import Mapping

from tornado.web import HTTPError

from workbench.team.actions.action import Action, Inputs
from workbench.team.actions.perform import Context, admit, perform
from workbench.team.web.base_handler import TeamHandler


class ActionHandler(TeamHandler):
    """Carries out the action of a method at one address."""

    actions: Mapping[str, Action]

    def initialize(self, actions: Mapping[str, Action]) -> None:  # type: ignore[override]
        super().initialize()
        self.actions = actions
        self._etag: str | None = None

    @property
    def largest_body(self) -> int:
        action = self.actions.get(self.request.method or "")
        return action.largest_body if action is not None else super().largest_body

    @property
    def context(self) -> Context:
        """For whom the action is carried out."""
        return Context(self.server, self.principal, self.request.remote_ip or "")

    async def prepare(self) -> None:
        """Refuse a body, before it is read, of a person who may not do this."""
        await super().prepare()
        action = self.actions.get(self.request.method or "")
        if action is not None and self.announced_body != 0:
            await admit(action, self.context, self.path_kwargs)

    async def carry_out(self, method: str, path: Mapping[str, str]) -> None:
        """Answer with what the action of this method answers."""
        action = self.actions.get(method)
        if action is None:
            raise HTTPError(405)
        query = {key: self.get_query_arguments(key, strip=False) for key in self.request.query_arguments}
        answer = await perform(action, self.context, Inputs(path, query, await self.read_json()))
        if action.etag:
            self._etag = f'"{answer[action.etag]}"'
            self.set_header("Cache-Control", "private, no-cache")  # it may be kept, and is asked for each time
        self.write_json(answer, action.status)

    def compute_etag(self) -> str | None:
        """Of what has a digest alone: nothing else may be kept."""
        return self._etag

    async def get(self, **path: str) -> None:
        await self.carry_out("GET", path)

    async def head(self, **path: str) -> None:
        await self.carry_out("GET", path)

    async def post(self, **path: str) -> None:
        await self.carry_out("POST", path)

    async def put(self, **path: str) -> None:
        await self.carry_out("PUT", path)

    async def patch(self, **path: str) -> None:
        await self.carry_out("PATCH", path)

    async def delete(self, **path: str) -> None:
        await self.carry_out("DELETE", path)
