"""What is released: the wheel and the source archive, their metadata, and the command line as a wheel has it."""

import email
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest

from hatch_build import absolute_links
from tests.support.documented_commands import quick_readme_commands
from tests.support.model_configs import PUBLISHED
from workbench.core.installation import PACKAGE, _command

pytestmark = [pytest.mark.compile]

ROOT = Path(__file__).parents[1]
ADDRESS = "https://github.com/example/sharding-workbench"
EXTENSION = "data/share/jupyter/labextensions/sharding-workbench"


def run(*command: str, environment: dict[str, str] | None = None, folder: Path = ROOT) -> str:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **(environment or {})}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    """The source archive, the wheel that is made of it, and the wheel that is made of this tree, without fetching anything."""
    archive, wheel = tmp_path_factory.mktemp("archive"), tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir")
    run(*build, str(archive), ".", environment={"WORKBENCH_REPOSITORY": ADDRESS})
    run(*build, str(wheel), "--wheel", ".", environment={"WORKBENCH_REPOSITORY": ADDRESS})
    return {"sdist": next(archive.glob("*.tar.gz")), "wheel": next(archive.glob("*.whl")), "of tree": next(wheel.glob("*.whl"))}


@pytest.fixture(scope="module")
def metadata(built) -> Message:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        return email.message_from_bytes(wheel.read(next(each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))))


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """A folder that the wheel alone is installed into; what it needs is in this environment."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder), str(built["wheel"]))
    return folder


def test_an_index_would_take_both(built):
    assert run(sys.executable, "-m", "twine", "check", "--strict", str(built["sdist"]), str(built["wheel"])).count("PASSED") == 2


def test_the_source_archive_gives_the_wheel_of_the_tree(built):
    contents = []
    for name in ("wheel", "of tree"):
        with zipfile.ZipFile(built[name]) as wheel:
            contents.append({each: wheel.read(each) for each in wheel.namelist()})
    assert contents[0] == contents[1]


def test_the_wheel_has_types_lessons_and_the_extension_once(built):
    with zipfile.ZipFile(built["wheel"]) as wheel:
        names = wheel.namelist()
    assert len(names) == len(set(names))
    assert {"workbench/py.typed", "workbench_jupyter/py.typed", "workbench/notebooks/01_layouts.ipynb"} <= set(names)
    lessons = {each.parent.name for each in (ROOT / "lessons").glob("*/lesson.md")}
    assert {name.split("/")[2] for name in names if name.startswith("workbench/lessons/")} == lessons
    extension = [name for name in names if name.endswith("static/remoteEntry.js")]
    assert len(extension) == 1
    assert EXTENSION in extension[0]
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/", "docs/"))]


def test_the_metadata_is_complete(metadata):
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    assert {each.split(", ")[0] for each in metadata.get_all("Project-URL")} == {"Repository", "Documentation", "Changelog", "Issues"}
    text = metadata.get_payload()
    assert f"]({ADDRESS}/raw/main/docs/" in text
    assert "](docs/" not in text
    assert "[yyyy]" not in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_the_extra_for_serving_brings_no_jupyterlab():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert not [each for each in (*extras["app"], *extras["team"]) if each.startswith(("jupyter", "sharding-workbench[lab]"))]
    assert [each for each in extras["lab"] if each.startswith(("sharding-workbench[app]", "jupyterlab"))] != []


def test_a_wheel_starts_lists_its_lessons_and_advises_by_its_address(installed, tmp_path):
    at = {"PYTHONPATH": str(installed)}
    command = (sys.executable, "-m", "workbench")
    assert run(*command, "--version", environment=at, folder=tmp_path).startswith("workbench 0.")
    copied = json.loads(run(*command, "learn", "one_product", "--json", environment=at, folder=tmp_path))
    assert (tmp_path / copied["folder"] / "lesson.md").is_file()
    code = "from workbench.core.installation import install_command; print(install_command('tpu'))"
    advice = run(sys.executable, "-c", code, environment=at, folder=tmp_path).strip()
    assert advice.startswith(f'pip install "{PACKAGE}[tpu] @ file://')
    assert advice.endswith('.whl"')


def test_the_commands_of_the_readme_run_one_after_the_other_from_a_wheel(installed, tmp_path):
    """In one process, in a folder with a configuration, as their reader has it."""
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED["Llama 3.1 8B"][1]))
    at = {"PYTHONPATH": str(installed), "WORKBENCH_CACHE": str(tmp_path / "cache"), "WORKBENCH_STATE": str(tmp_path / "state")}
    code = (
        "import json, sys; import workbench; from workbench.cli.main import main; print(workbench.__file__)\n"
        "failed = [words for words in json.loads(sys.argv[1]) if main(words) != 0]; assert not failed, failed"
    )
    printed = run(sys.executable, "-c", code, json.dumps(quick_readme_commands()), environment=at, folder=tmp_path)
    assert printed.startswith(str(installed))
    assert "fits" in printed
    assert "does not fit" not in printed
    assert {"sharded.plan.json", "mine.py", "one_product"} <= {each.name for each in tmp_path.iterdir()}


def test_advice_for_an_archive_that_pip_downloaded_names_its_address():
    record = json.dumps({"url": "https://example.org/w.tar.gz", "archive_info": {}})
    assert _command(record, False, "app") == f'pip install "{PACKAGE}[app] @ https://example.org/w.tar.gz"'


@pytest.mark.parametrize(
    ("repository", "expected"),
    [
        (ADDRESS, f"![A board]({ADDRESS}/raw/main/docs/a.png) and [docs]({ADDRESS}/blob/main/docs/a.md) and [JAX](https://jax.dev)"),
        ("", "*A board* and docs and [JAX](https://jax.dev)"),
    ],
)
def test_links_of_the_long_description_are_absolute_or_plain_text(repository, expected):
    assert absolute_links("![A board](docs/a.png) and [docs](docs/a.md) and [JAX](https://jax.dev)", repository) == expected


def test_workflows_use_what_the_package_states():
    import yaml

    from workbench.core.jax_installation import TESTED_JAX

    folder = ROOT / ".github" / "workflows"
    tests, docs = (yaml.safe_load((folder / f"{name}.yml").read_text(encoding="utf-8")) for name in ("tests", "docs"))
    assert set(tests["jobs"]) == {"linux", "newest", "elsewhere", "wheel"}
    assert (ROOT / ".ci" / "oldest.txt").read_text().split() == [f"jax=={TESTED_JAX[0]}", "panel==1.9.*"]
    steps = [step for job in (*tests["jobs"].values(), *docs["jobs"].values()) for step in job["steps"]]
    for script in {step["run"].split()[0] for step in steps if step.get("run", "").startswith(".ci/")}:
        assert os.access(ROOT / script, os.X_OK), script
    elsewhere = " ".join(step.get("run", "") for step in tests["jobs"]["elsewhere"]["steps"])
    assert [word for word in elsewhere.split() if word.startswith("tests/") and not (ROOT / word).exists()] == []
    assert tests["jobs"]["linux"]["timeout-minutes"] >= 30


def test_the_citation_is_of_this_version():
    import yaml

    import workbench

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == workbench.__version__
    assert {"cff-version", "title", "authors", "license", "message"} <= set(citation)
