"""Eight virtual CPU devices for every test, the seed of what a run draws, golden files, and a browser for the tests that drive one."""

import gc
import os
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # also for the processes that tests start
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")  # the processes of a run compile for TPUs at once
os.environ.setdefault("WORKBENCH_COMPILE", "when asked")  # figures move when a test moves them; one that is about it switches it on

import jax
import pytest
from hypothesis import settings

from tests.install_browsers import system_chromium
from tests.support.changed_packages import list_changed, packages_of
from tests.support.choosing import draw_shares, leave_to_the_nights
from tests.support.compiling import CompiledFolder, compile_cheaply, free_memory
from tests.support.run_times import RunTimes
from tests.support.traced_models import trace_each_once
from tests.support.warm_worker import WarmGroup
from workbench.core.parse_untrusted import import_jsonschema
from workbench.engine.worker import worker_process
from workbench.engine.worker.worker_process import ProcessGroup

sys.dont_write_bytecode = False  # else each of the hundreds of processes that tests start would compile the package for itself
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
import_jsonschema()  # before nbformat does, with all its grammars of addresses
compile_cheaply()
jax.config.update("jax_num_cpu_devices", 8)
trace_each_once()
settings.register_profile("workbench", deadline=None, database=None)
settings.load_profile("workbench")

GOLDEN = Path(__file__).parent / "golden"
COMPILED = pytest.StashKey[CompiledFolder]()
NO_BROWSER = "There is no Chromium to drive the page with: run `python tests/install_browsers.py`, or install one and put it on PATH."


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files anew instead of comparing with them")
    changed = "only the tests of packages with files that differ from a revision of Git, HEAD if none is given"
    parser.addoption("--changed", nargs="?", const="HEAD", metavar="REVISION", help=changed)


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its option
def pytest_configure(config: pytest.Config) -> None:
    """The same examples in all processes of a run: a worker of xdist has its seed from who started it."""
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = getattr(config, "workerinput", {}).get("hypothesis_seed") or _seed_of_tree()
    if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):  # a whole run, which lists what passes only then
        config.option.reruns, config.option.rerun_show_tracebacks = 1, True
    config.stash[COMPILED] = CompiledFolder(getattr(config, "workerinput", {}).get("compiled"))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(RunTimes())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--changed`, the tests of other packages are not even imported."""
    since, root = config.getoption("--changed"), Path(__file__).parent
    if since is None or collection_path.parent != root or collection_path == Path(__file__):
        return None
    return True if collection_path.name not in packages_of(list_changed(since)) else None


def _seed_of_tree() -> int:
    """New examples for every committed change, and for each the verdict of a run that of any other: from Git's name of the files."""
    found = subprocess.run(["git", "rev-parse", "HEAD^{tree}"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return int(found.stdout[:8], 16) if found.returncode == 0 else secrets.randbelow(1 << 32)


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[COMPILED].close()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Without the garbage collector, which would walk all that is collected ten times, in three seconds, and free nothing."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for each in items:
        if "browser" in getattr(each, "fixturenames", ()):
            each.add_marker("browser")
        if any("libtpu" in mark.kwargs.get("reason", "") for mark in each.iter_markers("skipif")):
            each.add_marker("tpu")
            each.add_marker("compile")
    draw_shares(config, items)
    leave_to_the_nights(config, items)
    items.sort(key=_place(items))


def _place(items: list[pytest.Item]) -> Callable[[pytest.Item], tuple[int, bool, int]]:
    """Long files first, so that with `--dist loadfile` two processes end together: the site and the notebooks, then what compiles, and of
    each kind the files with most tests. Files with a browser come last: Playwright leaves its event loop running in the process, and a test
    that runs one of its own could not follow. Of those, the files in JupyterLab are first: they take the longest."""
    marked = {name: {each.path for each in items if each.get_closest_marker(name)} for name in ("notebook", "compile", "browser")}
    tests = Counter(each.path for each in items)
    labs = {each.path for each in items if "lab" in getattr(each, "fixturenames", ())}

    def place(item: pytest.Item) -> tuple[int, bool, int]:
        path = item.path
        kind = 3 if path in marked["browser"] else 0 if path in marked["notebook"] else 1 if path in marked["compile"] else 2
        return kind, path not in labs, -tests[path]

    return place


TOGETHER = {"tests/app/browser/test_notebook.py": "tests/app/browser/test_jupyterlab.py"}
"""A file -> the one whose process runs it too: both open the same JupyterLab."""


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class LoadFilesTogether(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return TOGETHER.get(file, file)

    return LoadFilesTogether(config, log)


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_configure_node(node: Any) -> None:
    node.workerinput["hypothesis_seed"] = node.config.getoption("--hypothesis-seed")
    node.workerinput["compiled"] = node.config.stash[COMPILED].folder


@pytest.hookimpl(tryfirst=True)  # before a fixture starts one
def pytest_runtest_setup(item: pytest.Item) -> None:
    worker_process.ProcessGroup = ProcessGroup if item.get_closest_marker("cold") else WarmGroup


def pytest_report_header(config: pytest.Config) -> str:
    return _seed_line(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The seed once more where something failed: `-q` leaves out the header."""
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(_seed_line(config))


def _seed_line(config: pytest.Config) -> str:
    seed = config.getoption("--hypothesis-seed")
    return f"property tests, and the drawn share of cases: those of --hypothesis-seed={seed}, which gives the same ones again"


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Boards that the tests open are kept where nobody finds them; also for the processes that tests start."""
    os.environ["WORKBENCH_STATE"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="module", autouse=True)
def forgotten_afterwards(request: pytest.FixtureRequest) -> Iterator[None]:
    """What the functions of a file of tests have cached is dropped after its last test: spaces of plans and evaluators are hundreds of
    megabytes, which nothing else would free before the end of the run."""
    yield
    for value in vars(request.module).values():
        if getattr(value, "__module__", "") == request.module.__name__ and hasattr(value, "cache_clear"):
            value.cache_clear()
    free_memory()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: the text is that of `tests/golden/name`, to the letter."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text + "\n", f"{name} differs; if that is meant, run pytest --update-golden"

    return compare


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict, playwright) -> dict:
    """Playwright's own Chromium if it was downloaded, else the system's; without any, UI tests fail in CI and are skipped elsewhere."""
    root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    found = {**browser_type_launch_args, "args": [*root, "--disable-gpu", "--disable-background-networking", "--disable-component-update"]}
    if Path(playwright.chromium.executable_path).exists():
        return found
    if (path := system_chromium()) is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(NO_BROWSER)
    return {**found, "executable_path": path}
