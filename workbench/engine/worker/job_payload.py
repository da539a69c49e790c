"""The payload of a worker process: a job with a plan or fleet and its functions, and JAX's settings."""

import base64
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from workbench.core.program import Program
from workbench.engine.worker.pickling import dump_by_value
from workbench.errors import EngineError
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.fleet_forecast import count_devices
from workbench.multimodel.training_events import AddModel
from workbench.plan.plan import Plan

_OURS = ("workbench", "jax", "jaxlib", "numpy", "IPython", "ipykernel", "pytest")  # need no other first
_CONFIG = (  # settings that change the meaning of a traced program or its random values
    "jax_enable_x64",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_default_matmul_precision",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
)


@dataclass(frozen=True)
class WorkerJob:
    """What a worker does with a plan, or with a fleet of models.

    - `kind`: one of `worker_main.WORK`; `noun`: what a person calls it, in messages;
    - `options`: keyword arguments of the function that does it;
    - `environment`: variables set besides this process's own; `flags`: of XLA, where the user's own do not say otherwise;
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
        """The number of virtual CPU devices it needs where there is no accelerator."""
        if isinstance(self.subject, Plan):
            return self.subject.mesh.size
        return count_devices(self.subject)

    @property
    def here(self) -> str:
        """The call that does the same in this process."""
        return {"run": "execute(plan)", "compile": "compile_here(plan)", "search": "plan.search()", "calibrate": "calibrate(devices)"}.get(
            self.kind, "train_fleet(fleet)"
        )


def pack(job: WorkerJob) -> bytes:
    """A pickle of plain values around a cloudpickle of plan or fleet and options; raises `EngineError` if a function cannot be sent."""
    body = sendable((_on_host(job.subject), dict(job.options)), job.subject.name, f"call `{job.here}` in this process")
    found = {"kind": job.kind, "jax_config": jax_settings(), "behind": job.behind, "modules": imported_packages(), "body": body}
    return pickle.dumps(found)


def imported_packages() -> tuple[str, ...]:
    """The packages that this process has imported and that another can import, in the order in which it began to."""
    names = dict.fromkeys(name.partition(".")[0] for name, module in sys.modules.copy().items() if getattr(module, "__file__", None))
    return tuple(name for name in names if name not in sys.stdlib_module_names and name not in _OURS and not name.startswith("_"))


def jax_settings() -> dict[str, Any]:
    """The settings of JAX that another process must share, so that a program means the same there."""
    return {name: getattr(jax.config, name) for name in _CONFIG}


def use_jax_settings(settings: Mapping[str, Any]) -> None:
    """Apply the settings in the other process, before it makes arrays."""
    for name, value in settings.items():
        jax.config.update(name, value)


def sendable(content: Any, name: str, other_way: str) -> bytes:
    """A pickle with functions by value; raises `EngineError` if something in `content` cannot be pickled."""
    try:
        return dump_by_value(content)
    except Exception as error:  # pickling raises whatever an object's methods raise
        raise EngineError(
            f"{name} cannot be sent to a worker process: {type(error).__name__}: {error}",
            ["use only arrays and plain values in its functions, not open files, locks or devices", other_way],
        ) from error


def add_model_command(model: FleetModel) -> AddModel:
    """The command to a training fleet to take in one more model; raises `EngineError` if its functions cannot be sent."""
    sent = replace(model, program=_given_on_host(model.program))
    job_payload = sendable(sent, f"model `{model.name}`", "call `FleetRun.add` in this process")
    return AddModel(model.name, base64.b64encode(job_payload).decode())


def unpack_model(job_payload: str) -> FleetModel:
    """What `add_model_command` sent; raises `EngineError` if its functions cannot be loaded here."""
    try:
        model: FleetModel = pickle.loads(base64.b64decode(job_payload))  # noqa: S301 - our own starter wrote it
    except Exception as error:  # a user's module runs when it is imported here
        raise EngineError(f"The model could not be loaded: {type(error).__name__}: {error}", ["keep its functions in a module"]) from error
    return model


def _on_host(subject: Plan | Fleet) -> Plan | Fleet:
    """The plan or fleet with its given arrays in NumPy's form: JAX arrays would arrive whole on the worker's first device.

    Models that share a program still share it.
    """
    if isinstance(subject, Plan):
        return subject.updated(program=_given_on_host(subject.program))
    programs = {id(each.program): each.program for each in subject.models}
    sent = {key: _given_on_host(program) for key, program in programs.items()}
    return subject.updated(models=tuple(replace(each, program=sent[id(each.program)]) for each in subject.models))


def _given_on_host(program: Program) -> Program:
    given = tuple(
        np.asarray(each) if isinstance(each, jax.Array) and not jax.dtypes.issubdtype(each.dtype, jax.dtypes.prng_key) else each
        for each in program.step.given
    )
    return replace(program, step=replace(program.step, given=given))
