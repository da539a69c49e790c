"""The register of programs as the actions ask for it, off the event loop; a program that is withdrawn ends the rooms about it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from workbench.team.programs.fetch_policy import ProgramRegistryError
from workbench.team.programs.registry import ProgramRegistry

AT_ONCE = 2
"""Programs that are fetched at a time: that may take minutes, and others wait for threads too."""


class ProgramService:
    """`web.services.Programs`. `end_rooms(program_id)` ends what runs a program."""

    def __init__(self, registry: ProgramRegistry, end_rooms: Callable[[str], None]) -> None:
        self._registry, self._end_rooms = registry, end_rooms
        self._fetchers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="program fetcher")

    def close(self) -> None:
        """End what is being fetched."""
        self._fetchers.shutdown(wait=False, cancel_futures=True)
        self._registry.close()

    async def add(
        self, project_id: str, author_id: str, name: str, target: str, kind: Literal["git", "wheel"], locator: str, wheel: bytes | None
    ) -> str:
        """Register a program and fetch its files; its id. What prevents them from being fetched is in its row. Raises `WorkbenchError`."""
        added = (project_id, author_id, name, target, kind, locator, wheel)
        return await asyncio.get_running_loop().run_in_executor(self._fetchers, self._add, *added)

    async def approve(self, program_id: str, approver_id: str, digest: str) -> None:
        """Let it run. Raises `WorkbenchError` for files of another digest than the one that was seen."""
        await asyncio.to_thread(self._registry.approve, program_id, digest, approver_id)

    async def withdraw(self, program_id: str, author_id: str) -> None:
        """Let it run no more; whoever withdrew it is in the audit."""
        del author_id
        await asyncio.to_thread(self._registry.withdraw, program_id)
        self._end_rooms(program_id)

    def _add(self, project_id: str, author_id: str, name: str, target: str, kind: str, locator: str, wheel: bytes | None) -> str:
        if kind == "wheel":
            if wheel is None:
                raise ProgramRegistryError("No wheel was sent.", ["send the file itself"])
            added = self._registry.add_wheel(project_id, name, target, locator, wheel, author_id)
        else:
            address, _, commit = locator.partition(" ")
            added = self._registry.add_git(project_id, name, target, address, commit, author_id)
        self._registry.fetch(added.id)
        return added.id
