"""Find out how this package was installed, for install commands and the location of lessons.

Messages name a package index only if the package came from it: otherwise anyone could register the name.
"""

import json
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PACKAGE = "sharding-workbench"
_ROOT = Path(__file__).parents[1]


def install_command(*extras: str) -> str:
    """Return the command that adds extras to this installation: a checkout, a wheel or repository URL, or an index."""
    return _command(_direct_url(), (_ROOT.parent / "pyproject.toml").is_file(), ",".join(extras))


def _command(direct_url: str, is_checkout: bool, extras: str) -> str:
    """Return the install command for a PEP 610 `direct_url.json`, which is empty for an index.

    >>> _command('{"url": "file:///home/ada/workbench", "dir_info": {"editable": true}}', True, "tpu")
    'pip install -e ".[tpu]" in the checkout'
    >>> _command('{"url": "file:///tmp/sharding_workbench-0.1.0-py3-none-any.whl", "archive_info": {}}', False, "tpu")
    'pip install "sharding-workbench[tpu] @ file:///tmp/sharding_workbench-0.1.0-py3-none-any.whl"'
    >>> _command('{"url": "https://example.org/w.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}', False, "app,team")
    'pip install "sharding-workbench[app,team] @ git+https://example.org/w.git@c0ffee"'
    >>> _command("", False, "tpu")
    'pip install "sharding-workbench[tpu]"'
    """
    record = json.loads(direct_url or "{}")
    if is_checkout or record.get("dir_info", {}).get("editable"):
        return f'pip install -e ".[{extras}]" in the checkout'
    if not record.get("url"):
        return f'pip install "{PACKAGE}[{extras}]"'
    vcs = record.get("vcs_info")
    address = f"{vcs['vcs']}+{record['url']}@{vcs['commit_id']}" if vcs else record["url"]
    return f'pip install "{PACKAGE}[{extras}] @ {address}"'


def upgrade_advice() -> str:
    """Return how to upgrade: `pip` for an index, otherwise the original source."""
    if (_ROOT.parent / "pyproject.toml").is_file():
        return "git pull in the checkout"
    return "from where this one came from" if _direct_url() else f"pip install --upgrade {PACKAGE}"


@cache
def _direct_url() -> str:
    """Read the installer's `direct_url.json`; empty for an index and for a package that is only on the path."""
    try:
        return distribution(PACKAGE).read_text("direct_url.json") or ""
    except PackageNotFoundError:
        return ""


def shipped_folder(name: str) -> Path:
    """Return the folder `lessons` or `notebooks`: inside the package in a wheel, beside it in a checkout.

    >>> (shipped_folder("lessons") / "one_product" / "lesson.md").is_file()
    True
    """
    inside = _ROOT / name
    return inside if inside.is_dir() else _ROOT.parent / name
