"""The Ray engine, through the Jobs API: the entry point is the supervisor's command line, so that steps run outside
Ray's processes.

Ray uses the server's job ID, so that a submitted job can be found after a restart, and Ray rejects a second submission.
Ray runs code of anyone who reaches its API: restrict it to the server, or require a token (`RAY_AUTH_MODE`).
"""

import shlex
from pathlib import Path
from typing import Any

from workbench.team.jobs.job_folder import python_path
from workbench.team.jobs.job_spec import JobError, JobSpec, own_port
from workbench.team.jobs.local_engine import EngineUnavailableError, NativeState, free_port, supervisor_command

OPTIONS = {
    "cpus": "number of CPUs that Ray reserves for the job",
    "gpus": "number of GPUs that Ray reserves for the job",
    "resource": "a resource of the cluster that the node must have, such as TPU-v5e-8-head",
}
ADDRESS = "http://127.0.0.1:8265"
_GONE = ("STOPPED", "SUCCEEDED", "FAILED")


class Ray:
    """Submits to the cluster with this dashboard address. A job runs on one node."""

    name = "ray"
    is_here = False
    python: str | None = None
    patience = 30.0
    interval = 1.0

    def __init__(self, address: str = ADDRESS) -> None:
        self._address = address
        self._client: Any = None

    def submit(self, spec: JobSpec, folder: Path) -> str:
        if spec.hosts > 1:
            raise JobError("A job is on one node of a Ray cluster.", ["give hosts=1 and more processes", "use Slurm or Kubernetes"])
        native = f"workbench-{folder.name}"
        port = spec.port or (free_port() if "127.0.0.1" in self._address else own_port(folder.name))
        variables = {"PYTHONPATH": python_path(), "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "WORKBENCH_HOST": "0"}
        try:
            self._open().submit_job(
                entrypoint=shlex.join(supervisor_command(folder)),
                submission_id=native,
                runtime_env={"env_vars": variables},
                **_resources(spec),
            )
        except JobError:
            raise
        except Exception as error:
            if "already exists" in str(error) or "same submission_id" in str(error):
                return native
            kind = EngineUnavailableError if "try again later" in str(error) or isinstance(error, OSError) else JobError
            raise kind(f"Ray rejected the job: {_first_line(error)}", ["check the cluster", "check the options of the job"]) from error
        return native

    def recover(self, spec: JobSpec, folder: Path) -> str | None:  # noqa: ARG002 - of the family
        native = f"workbench-{folder.name}"
        return native if self._status(native) is not None else None

    def state(self, native: str) -> NativeState:
        status = self._status(native)
        if status is None or status in _GONE:
            return NativeState.GONE
        return NativeState.WAITING if status == "PENDING" else NativeState.RUNNING

    def cancel(self, native: str) -> None:
        if self.state(native) is not NativeState.GONE:
            try:
                self._open().stop_job(native)
            except Exception as error:  # as above
                raise JobError(f"Ray did not end the job: {_first_line(error)}", ["try again", "check the cluster"]) from error

    def _status(self, native: str) -> str | None:
        try:
            return str(self._open().get_job_status(native).value)
        except JobError:
            raise
        except Exception as error:
            if "does not exist" in str(error) or "404" in str(error):
                return None
            self._client = None
            raise EngineUnavailableError(f"Ray does not answer: {_first_line(error)}", ["check the cluster"]) from error

    def _open(self) -> Any:
        if self._client is None:
            try:
                from ray.job_submission import JobSubmissionClient
            except ImportError:  # Ray or a dependency of its Jobs API is missing
                raise JobError("Jobs on Ray need its Jobs API, which is not installed.", ['pip install "ray[default]"']) from None
            try:
                self._client = JobSubmissionClient(self._address)
            except Exception as error:  # as above
                ways_out = ["start one: `ray start --head`", "give the address of its dashboard"]
                raise EngineUnavailableError(f"No Ray cluster answers at {self._address}: {_first_line(error)}", ways_out) from error
        return self._client


def _resources(spec: JobSpec) -> dict[str, Any]:
    resources: dict[str, Any] = {"entrypoint_num_cpus": 1.0}
    for name, value in spec.options.items():
        if name == "resource":
            resources["entrypoint_resources"] = {value: 1.0}
        elif name in ("cpus", "gpus") and value.isdecimal():
            resources[f"entrypoint_num_{name}"] = float(value)
        else:
            raise JobError(f"Ray has no option `{name[:80]}={value[:80]}` here.", [f"use {', '.join(OPTIONS)}"])
    if spec.memory:
        resources["entrypoint_memory"] = spec.memory * spec.processes
    return resources


def _first_line(error: Exception) -> str:
    line = next((text.strip() for text in str(error).splitlines() if text.strip()), "")
    return (line or type(error).__name__)[:300]
