"""Make sure that there is a Chromium for the tests that drive the page: `python tests/install_chromium.py`.

One that is there already is taken. Else Debian's own package where apt may be used (it needs no download from Playwright's servers),
else Playwright's. Without any the other tests still run, so this never fails.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def system_chromium() -> str | None:
    """The path of an installed Chromium or Chrome."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def main() -> None:
    if system_chromium() or _playwright_chromium():
        return
    for command in _ways():
        print("+", *command, flush=True)
        if subprocess.run(command, check=False, timeout=900).returncode:
            break
    if not (system_chromium() or _playwright_chromium()):
        print("No Chromium could be installed; the tests that drive the page will say so.", file=sys.stderr)


def _playwright_chromium() -> bool:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        return Path(playwright.chromium.executable_path).exists()


def _ways() -> list[list[str]]:
    release = Path("/etc/os-release")
    debian = release.exists() and "ID=debian" in release.read_text().splitlines()  # Ubuntu's package is a stub for snap
    if debian and shutil.which("apt-get") and os.geteuid() == 0:
        return [["apt-get", "update", "-q"], ["apt-get", "install", "-yq", "--no-install-recommends", "chromium"]]
    return [[sys.executable, "-m", "playwright", "install", "chromium"]]


if __name__ == "__main__":
    main()
