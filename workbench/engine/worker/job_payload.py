"""Payload of a worker process: a job with a plan or fleet, its functions, and JAX's settings."""

import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from workbench.core.program import Program
from workbench.engine.worker.pickling import jax_settings, sendable
from workbench.errors import EngineError
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.fleet_forecast import count_devices
from workbench.multimodel.training_events import AddModel
from workbench.plan.plan import Plan

_OURS = ("workbench", "jax", "jaxlib", "numpy", "IPython", "ipykernel", "pytest")  # need no other package imported first


@dataclass(frozen=True)
class WorkerJob:
    """Work of a worker process on a plan or a fleet of models.

    - `kind`: one of `worker_main.WORK`; `noun`: its name in messages;
    - `options`: keyword arguments of the function that does it;
    - `environment`: variables set in addition to this process's; `flags`: of XLA, unless the user has set them;
    - `behind`: run at low priority, after other work of the machine.
    """

    kind: str
    noun: str
    subject: Plan | Fleet
    options: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    behind: bool = False

    @property
    def devices(self) -> int:
        """Number of virtual CPU devices needed without an accelerator."""
        if isinstance(self.subject, Plan):
            return self.subject.mesh.size
        return count_devices(self.subject)

    @property
    def here(self) -> str:
        return {"run": "execute(plan)", "compile": "compile_here(plan)", "search": "plan.search()", "calibrate": "calibrate(devices)"}.get(
            self.kind, "train_fleet(fleet)"
        )


def pack(job: WorkerJob) -> bytes:
    """Pickle plain values around a cloudpickle of subject and options; raises `EngineError` if that fails."""
    body = sendable((_on_host(job.subject), dict(job.options)), job.subject.name, f"call `{job.here}` in this process")
    payload = {"kind": job.kind, "jax_config": jax_settings(), "behind": job.behind, "modules": imported_packages(), "body": body}
    return pickle.dumps(payload)


def imported_packages() -> tuple[str, ...]:
    """Return the packages imported in this process that another can import, in import order."""
    names = dict.fromkeys(name.partition(".")[0] for name, module in sys.modules.copy().items() if getattr(module, "__file__", None))
    return tuple(name for name in names if name not in sys.stdlib_module_names and name not in _OURS and not name.startswith("_"))


def add_model_command(model: FleetModel) -> AddModel:
    """Return the command to add a model to a training fleet; raises `EngineError` if its functions cannot be sent."""
    sent = replace(model, program=_given_on_host(model.program))
    job_payload = sendable(sent, f"model `{model.name}`", "call `FleetRun.add` in this process")
    return AddModel(model.name, job_payload)


def unpack_model(job_payload: bytes) -> FleetModel:
    """Return the model sent by `add_model_command`; raises `EngineError` if its functions cannot be loaded here."""
    try:
        model: FleetModel = pickle.loads(job_payload)  # noqa: S301 - our own starter wrote it
    except Exception as error:  # importing a user's module may raise anything
        raise EngineError(f"The model could not be loaded: {type(error).__name__}: {error}", ["keep its functions in a module"]) from error
    return model


def _on_host(subject: Plan | Fleet) -> Plan | Fleet:
    """Convert given arrays to NumPy: JAX arrays would arrive whole on one device. Shared programs stay shared."""
    if isinstance(subject, Plan):
        return subject.updated(program=_given_on_host(subject.program))
    programs = {id(model.program): model.program for model in subject.models}
    sent = {key: _given_on_host(program) for key, program in programs.items()}
    return subject.updated(models=tuple(replace(model, program=sent[id(model.program)]) for model in subject.models))


def _given_on_host(program: Program) -> Program:
    given = tuple(
        np.asarray(leaf) if isinstance(leaf, jax.Array) and not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        for leaf in program.step.given
    )
    return replace(program, step=replace(program.step, given=given))
