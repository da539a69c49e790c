"""The page in Firefox: the browser of the tests in this folder, which are tests of the folder above."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright

from tests.install_browsers import system_firefox

REPOSITORY = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def browser(playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The system's Firefox, which ends with these tests; without one they are skipped."""
    if (path := system_firefox()) is None:
        pytest.skip("There is no Firefox: run `python tests/install_browsers.py`, or install one and put it on PATH.")
    started = tmp_path_factory.mktemp("firefox") / "firefox"
    started.write_text(f'#!/bin/sh\ncd "{REPOSITORY}" && exec "{sys.executable}" -m tests.support.firefox_relay "{path}" "$@"\n')
    started.chmod(0o755)
    launched = playwright.firefox.launch(channel="moz-firefox", executable_path=started, env=dict(os.environ))
    yield launched
    launched.close()
