"""Make sure that there are browsers for the tests that drive the page, and bubblewrap for those of the sandbox.

`python tests/install_browsers.py`: a Chromium, and a Firefox beside it. What is there already is taken. Else Debian's own packages where
apt may be used (they need no download from Playwright's servers); elsewhere Playwright's Chromium. Without any the other tests still run,
so this never fails.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FIREFOXES = ("firefox-esr", "firefox")


def system_chromium() -> str | None:
    """The path of an installed Chromium or Chrome."""
    return _first(CHROMIUMS)


def system_firefox() -> str | None:
    """The path of an installed Firefox."""
    return _first(FIREFOXES)


def system_bubblewrap() -> str | None:
    """The path of an installed bubblewrap."""
    return shutil.which("bwrap")


def main() -> None:
    wanted = (("chromium", _any_chromium), ("firefox-esr", system_firefox), ("bubblewrap", system_bubblewrap))
    missing = [name for name, found in wanted if not found()]
    for command in _ways(missing):
        print("+", *command, flush=True)
        if subprocess.run(command, check=False, timeout=900).returncode:
            break
    if not _any_chromium():
        print("No Chromium could be installed; the tests that drive the page will say so.", file=sys.stderr)
    if system_firefox() is None:
        print("There is no Firefox; what is tried in it is skipped.", file=sys.stderr)
    if system_bubblewrap() is None:
        print("There is no bubblewrap; hostile programs are tried against the limits alone.", file=sys.stderr)


def _first(names: tuple[str, ...]) -> str | None:
    return next((path for name in names if (path := shutil.which(name))), None)


def _any_chromium() -> bool:
    return system_chromium() is not None or _playwright_chromium()


def _playwright_chromium() -> bool:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        return Path(playwright.chromium.executable_path).exists()


def _ways(missing: list[str]) -> list[list[str]]:
    release = Path("/etc/os-release")
    debian = release.exists() and "ID=debian" in release.read_text().splitlines()  # Ubuntu's package is a stub for snap
    if missing and debian and shutil.which("apt-get") and os.geteuid() == 0:
        return [["apt-get", "update", "-q"], ["apt-get", "install", "-yq", "--no-install-recommends", *missing]]
    return [[sys.executable, "-m", "playwright", "install", "chromium"]] if "chromium" in missing else []


if __name__ == "__main__":
    main()
