"""The container files: that they are of the form that their engines read, and that what they name is there."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.support.deploy_files import (
    DEPLOY,
    ROOT,
    compose,
    compose_flaws,
    dockerfile,
    instructions_of,
    kubernetes_flaws,
    manifest,
    manifests,
)
from workbench.cli.parser import make_parser
from workbench.team.jobs import kubernetes
from workbench.team.jobs.job_spec import JobSpec
from workbench.team.programs.program_registry import ProgramRegistry
from workbench.team.sandbox.resource_limits import SandboxAbility, SandboxLevel
from workbench.team.sandbox.sandbox import Sandbox
from workbench.team.store.store import Store
from workbench.team.team_config import FILE, PORT, TeamConfig
from workbench.team.team_setup import make_dispatcher
from workbench.team.web.application import health_routes

DATA = "/data"
USER = 10001
HEALTH = [route[0] for route in health_routes()]


def configured(folder: Path, source: Path) -> TeamConfig:
    """A server's set-up as a container has it."""
    shutil.copy(source, folder / FILE)
    return TeamConfig.read(folder, listen=f"0.0.0.0:{PORT}")


def verify_command(words: list[str]) -> None:
    """The command line takes what a container starts."""
    assert words[:3] == ["tini", "--", "workbench"]
    options = make_parser().parse_args(words[3:])
    assert options.listen == f"0.0.0.0:{PORT}"
    assert options.command.name == "serve"


# the image


@pytest.mark.parametrize("target", ["server", "kubernetes"])
def test_an_image_is_of_another_user_than_root_and_starts_the_server_itself(target):
    found = {each.name: each for each in instructions_of(target)}
    assert found["USER"].text == f"{USER}:{USER}"
    verify_command(found["ENTRYPOINT"].words() + found["CMD"].words())
    assert found["STOPSIGNAL"].text == "SIGTERM"
    assert found["EXPOSE"].text == str(PORT)
    assert found["VOLUME"].text == DATA
    assert f"WORKBENCH_TEAM={DATA}" in found["ENV"].words()
    health = found["HEALTHCHECK"].text
    assert f"http://127.0.0.1:{PORT}{HEALTH[0]}" in health
    compile(re.search(r'"-c", "(.*?)"\]', health)[1], "HEALTHCHECK", "exec")


def test_what_is_copied_into_the_image_is_there_and_is_sent_to_the_builder():
    ignore = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    copied = [name for each in dockerfile() if each.name == "COPY" and "from" not in each.flags() for name in each.words()[:-1]]
    assert len(copied) >= 5
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert sorted(f"!{name}" for name in copied) == sorted(line for line in ignore if line.startswith("!"))


def test_what_the_package_is_built_of_is_copied():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())
    copied = {name for each in dockerfile() if each.name == "COPY" and each.stage == 0 for name in each.words()[:-1]}
    wheel = build["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", "README.md", *wheel["packages"], *(each.split("/")[0] for each in wheel["shared-data"])}
    assert needed <= copied
    (extras,) = [each.text.partition("=")[2] for each in dockerfile() if each.name == "ARG"]
    assert extras in build["project"]["optional-dependencies"]


def test_each_stage_begins_with_a_version_or_with_another_stage():
    stages = [each.words() for each in dockerfile() if each.name == "FROM"]
    names = {words[-1] for words in stages}
    assert all(words[0] in names or re.fullmatch(r"[\w./-]+:\d[\w.-]*", words[0]) for words in stages)
    outside = [each.flags()["from"] for each in dockerfile() if each.name == "COPY" and "from" in each.flags()]
    assert all(each in names or re.search(r":v\d+\.\d+\.\d+$", each) for each in outside)


def test_the_image_has_what_the_server_calls():
    installed = " ".join(each.text for each in instructions_of("server") if each.name == "RUN")
    assert {"bubblewrap", "git", "tini", "ca-certificates"} <= set(installed.split())


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not installed")
def test_a_linter_of_dockerfiles_finds_nothing():
    done = subprocess.run(["hadolint", DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


# compose


def test_the_compose_file_is_of_the_specification():
    assert compose_flaws(compose()) == []
    assert compose_flaws({"services": {"server": {"imagee": "x"}}})
    assert compose_flaws({"services": {"server": {"healthcheck": {"retries": "many"}}}})


def test_the_compose_file_names_what_is_there():
    services = compose()["services"]
    server = services["server"]
    assert (DEPLOY / server["build"]["context"]).resolve() == ROOT
    assert (ROOT / server["build"]["dockerfile"]).is_file()
    mounts = [each.split(":") for service in services.values() for each in service["volumes"]]
    assert all((DEPLOY / source).is_file() if source.startswith(".") else source in compose()["volumes"] for source, *_ in mounts)
    assert {secret for service in services.values() for secret in service.get("secrets", ())} == set(compose()["secrets"])
    assert all(services[each].get("healthcheck") for each in server["depends_on"])
    assert server["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]  # to this machine only, until there is a proxy with a certificate


def test_the_server_of_the_compose_file_finds_its_database(tmp_path):
    config, database = configured(tmp_path, DEPLOY / "team.toml"), compose()["services"]["database"]
    (secret,) = compose()["secrets"]
    assert config.database_password_file == f"/run/secrets/{secret}" == database["environment"]["POSTGRES_PASSWORD_FILE"]
    user, name = database["environment"]["POSTGRES_USER"], database["environment"]["POSTGRES_DB"]
    assert config.database == f"postgresql://{user}@database/{name}"
    assert {f"--username={user}", f"--dbname={name}"} <= set(database["healthcheck"]["test"])


def test_the_server_of_the_compose_file_may_do_no_more_than_it_needs():
    server = compose()["services"]["server"]
    assert server["read_only"] is True
    assert server["cap_drop"] == ["ALL"]
    assert server["security_opt"] == ["no-new-privileges:true", *(f"{each}=unconfined" for each in ("seccomp", "apparmor", "systempaths"))]
    assert not server.get("privileged")


# Kubernetes


@pytest.mark.parametrize("document", manifests(), ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_each_manifest_is_of_the_cluster_s_api(document):
    assert kubernetes_flaws(document) == []


def test_a_field_that_the_cluster_does_not_know_would_be_found():
    wrong = {**manifest("Service"), "spec": {**manifest("Service")["spec"], "portz": []}}
    assert any("portz" in flaw for flaw in kubernetes_flaws(wrong))
    assert kubernetes_flaws({"apiVersion": "apps/v1", "kind": "Service"})


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_renders_them():
    done = subprocess.run(["kubectl", "kustomize", DEPLOY / "kubernetes"], capture_output=True, text=True, check=False)
    if "command not found" in done.stderr or "unknown command" in done.stderr:
        pytest.skip("this kubectl has no kustomize")
    assert done.returncode == 0, done.stderr
    rendered = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert [flaw for each in rendered for flaw in kubernetes_flaws(each)] == []
    assert {each["metadata"]["namespace"] for each in rendered} == {"workbench"}
    assert len(rendered) == len(manifests()) + 1  # `team.toml`


def test_the_kustomization_names_what_is_there():
    folder = DEPLOY / "kubernetes"
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    named = [*kustomization["resources"], *(file for each in kustomization["configMapGenerator"] for file in each["files"])]
    assert {each.name for each in folder.iterdir()} == {*named, "kustomization.yaml"}
    used = {container["image"] for container in pod()["containers"]}
    assert used == {each["name"] for each in kustomization["images"]}
    assert kustomization["images"][0]["newTag"] in {each.words()[-1] for each in dockerfile() if each.name == "FROM"}


def pod() -> dict:
    return manifest("StatefulSet")["spec"]["template"]["spec"]


def test_the_objects_find_each_other():
    labels = manifest("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    service = manifest("Service")["spec"]
    assert manifest("StatefulSet")["spec"]["selector"]["matchLabels"] == service["selector"] == labels
    assert manifest("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels
    (container,) = pod()["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"http": PORT}
    assert {each["targetPort"] for each in service["ports"]} == set(ports)
    (rule,) = manifest("Ingress")["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": "workbench", "port": {"name": service["ports"][0]["name"]}}
    assert pod()["serviceAccountName"] == manifest("RoleBinding")["subjects"][0]["name"] == manifest("ServiceAccount")["metadata"]["name"]
    assert {each["name"] for each in pod()["volumes"]} == {each["name"] for each in container["volumeMounts"]}


def test_there_is_one_server_and_no_more_rights_than_it_needs():
    assert manifest("StatefulSet")["spec"]["replicas"] == 1
    (container,) = pod()["containers"]
    own = container["securityContext"]
    assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"], own["capabilities"]) == (False, True, {"drop": ["ALL"]})
    assert (
        pod()["securityContext"] | {"runAsUser": USER, "runAsGroup": USER, "fsGroup": USER, "runAsNonRoot": True}
        == pod()["securityContext"]
    )
    assert manifest("ServiceAccount", "workbench-jobs")["automountServiceAccountToken"] is False


def test_a_sandbox_can_be_made_in_the_pods_of_the_server_and_of_jobs_that_need_one():
    (container,) = pod()["containers"]
    spec = JobSpec("0" * 64, program="d" * 64, module="mine")
    (job,) = kubernetes.render_job(spec, Path(DATA) / "jobs" / "abc", {"image": "i", "claim": "c"}, Path(DATA))
    assert kubernetes_flaws(job) == []
    theirs = job["spec"]["template"]["spec"]
    for each, inner in ((pod(), container), (theirs, theirs["containers"][0])):
        assert each["hostUsers"] is False
        assert {each["securityContext"][name]["type"] for name in ("seccompProfile", "appArmorProfile")} == {"Unconfined"}
        assert inner["securityContext"]["procMount"] == "Unmasked"
    mounted = [each["mountPath"] for each in theirs["containers"][0]["volumeMounts"]]
    assert mounted == [f"{DATA}/jobs/abc", f"{DATA}/programs/trees/{spec.program}"]


def test_the_probes_ask_for_pages_that_the_server_has_under_a_name_that_it_knows():
    (container,) = pod()["containers"]
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {each["path"] for each in probes.values()} <= set(HEALTH)
    assert probes["readiness"]["path"] == "/readyz"
    assert all(each["httpHeaders"] == [{"name": "Host", "value": f"localhost:{PORT}"}] for each in probes.values())


def test_the_container_starts_what_the_command_line_takes():
    (container,) = pod()["containers"]
    (entrypoint,) = [each.words() for each in instructions_of("kubernetes") if each.name == "ENTRYPOINT"]
    verify_command(entrypoint + container["args"])


def test_the_set_up_of_the_cluster_is_one(tmp_path):
    config = configured(tmp_path, DEPLOY / "kubernetes" / "team.toml")
    (container,) = pod()["containers"]
    mounts = {each["name"]: each for each in container["volumeMounts"]}
    assert mounts["set-up"]["mountPath"] == f"{DATA}/{FILE}"
    assert mounts["data"]["mountPath"] == DATA == config.jobs["kubernetes"]["mount"]
    assert Path(config.database_password_file).parent == Path(mounts["secrets"]["mountPath"])
    assert config.public_address == f"https://{manifest('Ingress')['spec']['rules'][0]['host']}"
    options = config.jobs["kubernetes"]["options"]
    assert options["claim"] == manifest("PersistentVolumeClaim", "workbench-data")["metadata"]["name"]
    assert options["claim"] == next(each["persistentVolumeClaim"]["claimName"] for each in pod()["volumes"] if each["name"] == "data")
    assert options["service_account"] == manifest("ServiceAccount", "workbench-jobs")["metadata"]["name"]
    (image,) = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())["images"]
    assert options["image"] == f"{image['newName']}:{image['newTag']}"


@pytest.mark.parametrize("hosts", [1, 2])
def test_jobs_of_that_set_up_are_of_the_cluster_s_api_and_the_server_may_make_them(tmp_path, hosts):
    config = configured(tmp_path, DEPLOY / "kubernetes" / "team.toml")
    given = config.jobs["kubernetes"]
    spec = JobSpec("0" * 64, hosts=hosts, devices=8, memory=1 << 30, options={"accelerator": "nvidia.com/gpu=4"})
    made = kubernetes.render_job(spec, Path(DATA) / "jobs" / "abc", given["options"], Path(given["mount"]))
    assert [flaw for each in made for flaw in kubernetes_flaws(each)] == []
    kinds = {f"{each['kind'].lower()}s" for each in made}
    rules = manifest("Role")["rules"]
    assert kinds <= {name for rule in rules for name in rule["resources"]}
    assert all({"get", "list", "create", "patch", "delete"} <= set(rule["verbs"]) for rule in rules)
    labels = made[-1]["spec"]["template"]["metadata"]["labels"]
    (expression,) = manifest("NetworkPolicy", "workbench-jobs")["spec"]["podSelector"]["matchExpressions"]
    assert expression["key"] in labels


def test_the_engines_of_that_set_up_are_known(tmp_path):
    config = configured(tmp_path, DEPLOY / "kubernetes" / "team.toml")
    store = Store.open("sqlite://")
    sandbox = Sandbox(SandboxAbility(SandboxLevel.SEPARATE_PROCESS))
    dispatcher = make_dispatcher(config, store, ProgramRegistry(store, tmp_path / "programs", sandbox))
    assert set(dispatcher.lanes) == set(config.jobs["engines"])
    sandbox.close()
    store.close()
