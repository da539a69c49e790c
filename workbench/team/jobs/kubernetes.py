"""The Kubernetes engine: submit an indexed Job with one pod per host through `kubectl`.

Pods find process 0 by the name of a headless Service. The job's folder is on a volume shared with the server (`claim`;
`mount` is its path on the server), of which a pod sees only that folder.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any

from workbench.team.jobs.job_spec import JobError, JobSpec, own_port
from workbench.team.jobs.local_engine import NativeState, supervisor_command

OPTIONS = {
    "image": "the container's image, with the workbench in it",
    "claim": "the volume claim that holds the server's data",
    "namespace": "the namespace of the job",
    "queue": "the queue of Kueue that admits it",
    "service_account": "the service account of the pods",
    "accelerator": "the devices of a pod, such as nvidia.com/gpu=8 or google.com/tpu=4",
    "node_selector": "labels that a node must have, such as cloud.google.com/gke-tpu-topology=4x4",
    "cpus": "CPUs per pod",
}
NAMESPACE = "default"
TIME_LIMIT = 30.0  # seconds for `kubectl`
_LABEL = "sharding-workbench/job"


class Kubernetes:
    """Renders manifests and submits them with `kubectl`; `mount` is the shared data folder on the server."""

    name = "kubernetes"
    is_here = False
    python: str | None = "python"
    patience = 60.0
    interval = 5.0

    def __init__(self, mount: Path | None = None, options: Mapping[str, str] | None = None, kubectl: str = "kubectl") -> None:
        self._mount, self._options, self._kubectl = mount, dict(options or {}), kubectl

    def submit(self, spec: JobSpec, folder: Path) -> str:
        manifest = render_job(spec, folder, self._options, self._mount)
        (folder / "manifest.yaml").write_text(as_yaml(manifest), encoding="utf-8")
        self._ask("apply", "--filename", str(folder / "manifest.yaml"))
        metadata = manifest[-1]["metadata"]
        return f"{metadata['namespace']}/{metadata['name']}"

    def recover(self, spec: JobSpec, folder: Path) -> str | None:
        native = f"{_namespace({**self._options, **spec.options})}/{job_name(folder)}"
        return native if self._find(native) is not None else None

    def state(self, native: str) -> NativeState:
        status = self._find(native)
        if status is None:
            return NativeState.GONE
        ended = any(
            condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"
            for condition in status.get("conditions") or ()
        )
        if ended:
            return NativeState.GONE
        return NativeState.RUNNING if status.get("ready") else NativeState.WAITING

    def cancel(self, native: str) -> None:
        namespace, _, name = native.partition("/")
        self._ask("delete", "job,service", "--namespace", namespace, "--selector", f"{_LABEL}={name}", "--wait=false", "--ignore-not-found")

    def _find(self, native: str) -> Mapping[str, Any] | None:
        namespace, _, name = native.partition("/")
        text = self._ask("get", "job", name, "--namespace", namespace, "--output", "json", "--ignore-not-found")
        with suppress(ValueError, AttributeError):
            return dict(json.loads(text).get("status") or {})
        return None

    def _ask(self, *arguments: str) -> str:
        try:
            done = subprocess.run(  # noqa: S603 - the user's kubectl
                [self._kubectl, *arguments], capture_output=True, text=True, timeout=TIME_LIMIT, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            ways_out = ["install kubectl where the server runs", "submit the rendered manifest.yaml yourself"]
            raise JobError(f"`kubectl` does not answer: {type(error).__name__}.", ways_out) from None
        if done.returncode:
            raise JobError(f"`kubectl` says: {done.stderr.strip()[:300]}", ["check the cluster", "check the options of the job"])
        return done.stdout


def job_name(folder: Path) -> str:
    return f"workbench-{folder.name}"


def render_job(spec: JobSpec, folder: Path, defaults: Mapping[str, str], mount: Path | None = None) -> list[dict[str, Any]]:
    """Return the manifests: an indexed Job, and a headless Service for several hosts. Raises `JobError`."""
    options, name = _verify({**defaults, **spec.options}), job_name(folder)
    metadata = _metadata(name, options)
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": _job(spec, folder, options, mount, f"{name}-0.{name}")}
    if spec.hosts == 1:
        return [job]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"clusterIP": "None", "selector": {_LABEL: name}, "publishNotReadyAddresses": True},
    }
    return [service, job]


def as_yaml(manifests: Sequence[Mapping[str, Any]]) -> str:
    import yaml

    return str(yaml.safe_dump_all(manifests, sort_keys=False))


_NESTED = {"seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"}}
"""Settings that a sandbox inside a pod needs besides user namespaces and an unmasked /proc; it has its own system call
filter.
"""


def _job(spec: JobSpec, folder: Path, options: Mapping[str, str], mount: Path | None, first: str) -> dict[str, Any]:
    """Return the spec of an indexed Job: no retries, and all pods start together."""
    return {
        "completionMode": "Indexed",
        "completions": spec.hosts,
        "parallelism": spec.hosts,
        "backoffLimit": 0,
        "activeDeadlineSeconds": ceil(spec.minutes * 60) + 180,  # later than the supervisor's own limit, which reports the timeout
        "ttlSecondsAfterFinished": 3600,
        "template": {
            "metadata": {"labels": {_LABEL: job_name(folder)}},
            "spec": _pod(spec, folder, options, mount or folder.parents[1], f"{first}:{spec.port or own_port(folder.name)}"),
        },
    }


def _pod(spec: JobSpec, folder: Path, options: Mapping[str, str], mount: Path, coordinator: str) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "subdomain": job_name(folder),
        "automountServiceAccountToken": False,  # the job is a user's code
        "terminationGracePeriodSeconds": 30,
        "containers": [_container(spec, folder, options, mount, coordinator)],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": options["claim"]}}],
    }
    if spec.hosts == 1:
        del pod["subdomain"]
    if spec.program:
        pod |= {"hostUsers": False, "securityContext": _NESTED}
    if "service_account" in options:
        pod["serviceAccountName"] = options["service_account"]
    if "node_selector" in options:
        pod["nodeSelector"] = dict(_pairs("node_selector", options["node_selector"]))
    return pod


def _container(spec: JobSpec, folder: Path, options: Mapping[str, str], mount: Path, coordinator: str) -> dict[str, Any]:
    limits = dict(_pairs("accelerator", options["accelerator"])) if "accelerator" in options else {}
    if "cpus" in options:
        limits["cpu"] = options["cpus"]
    if spec.memory:
        limits["memory"] = str(spec.memory * spec.processes)
    variables = {"JAX_COORDINATOR_ADDRESS": coordinator} if spec.process_count > 1 else {}
    return {
        "name": "job",
        "image": options["image"],
        "command": supervisor_command(folder, Kubernetes.python),
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "resources": {"limits": limits, "requests": dict(limits)},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            **({"procMount": "Unmasked"} if spec.program else {}),
        },
        "volumeMounts": _mounts(spec, folder, mount),
    }


def _mounts(spec: JobSpec, folder: Path, mount: Path) -> list[dict[str, Any]]:
    """Mount only the job's folder and its program's files (read-only), so that the secret key stays out of the pod."""
    mounts: list[dict[str, Any]] = [{"name": "data", "mountPath": str(folder), "subPath": folder.relative_to(mount).as_posix()}]
    if spec.program:
        tree = f"programs/trees/{spec.program}"
        mounts.append({"name": "data", "mountPath": str(mount / tree), "subPath": tree, "readOnly": True})
    return mounts


def _metadata(name: str, options: Mapping[str, str]) -> dict[str, Any]:
    labels = {_LABEL: name, **({"kueue.x-k8s.io/queue-name": options["queue"]} if "queue" in options else {})}
    return {"name": name, "namespace": _namespace(options), "labels": labels}


def _namespace(options: Mapping[str, str]) -> str:
    return options.get("namespace") or NAMESPACE


def _verify(options: Mapping[str, str]) -> Mapping[str, str]:
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise JobError(f"Kubernetes has no option `{unknown[0][:80]}` here.", [f"use {', '.join(OPTIONS)}"])
    missing = [name for name in ("image", "claim") if not options.get(name)]
    if missing:
        requirements = " and ".join(f"`{name}`: {OPTIONS[name]}" for name in missing)
        raise JobError(f"A job on Kubernetes needs {requirements}.", ["set it in the project's hardware"])
    return options


def _pairs(name: str, text: str) -> list[tuple[str, str]]:
    """Parse `a=1,b=2`. Raises `JobError`."""
    pairs = [part.strip().partition("=") for part in text.split(",")]
    if not all(key and value for key, _, value in pairs):
        raise JobError(f"`{name}` is `{text[:80]}`; it should be NAME=VALUE, several with commas.", [OPTIONS[name]])
    return [(key, value) for key, _, value in pairs]
