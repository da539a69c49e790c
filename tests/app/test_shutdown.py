"""A server that is told to end: within five seconds, with code 0, and without a word of Python's."""

import html
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from tests.support.servers import free_port, wait_for

pytestmark = [pytest.mark.compile, pytest.mark.worker]

SERVED = """
from workbench.app.page.page_template import template_of
from workbench.app.page.serve import listen
import panel as pn
page = lambda: template_of("t", pn.pane.Str("here"))
listen(page, {port}, False, "127.0.0.1", (), None, threaded=False, close=lambda: print("closed", flush=True))
"""
STUCK = """
import threading
from workbench.app.page.page_template import template_of
from workbench.app.page.serve import listen
listen(lambda: template_of("t", None), {port}, False, "127.0.0.1", (), None, threaded=False, close=threading.Event().wait)
"""

EARLY = """
import os, signal
from workbench.app.page import serve
make = serve.guarded_server
def told_meanwhile(*args, **options):
    server = make(*args, **options)
    os.kill(os.getpid(), signal.SIGTERM)
    return server
serve.guarded_server = told_meanwhile
serve.listen(lambda: serve.template_of("t", None), 0, False, "127.0.0.1", (), {path!r}, threaded=False)
"""


def opened(port):
    """A page and its websocket."""
    visitor = http.client.HTTPConnection("127.0.0.1", port)
    visitor.request("GET", "/")
    token = re.search(r'"token":"([^"]+)"', html.unescape(visitor.getresponse().read().decode()))[1]
    asked = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    visitor.request("GET", "/ws", headers={**asked, "Sec-WebSocket-Protocol": f"bokeh, {token}", "Origin": f"http://127.0.0.1:{port}"})
    assert visitor.sock.recv(12) == b"HTTP/1.1 101"
    return visitor


@contextmanager
def running(*command):
    process = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process, number):
    """Seconds until it ended, its exit code, output."""
    begun = time.monotonic()
    process.send_signal(number)
    said, complained = process.communicate(timeout=30)
    return time.monotonic() - begun, process.returncode, said, complained


def test_a_server_with_a_visitor_ends_gracefully():
    port = free_port()
    with running("-c", SERVED.format(port=port)) as process:
        wait_for(f"http://127.0.0.1:{port}/liveness")
        visitor = opened(port)
        seconds, code, said, complained = ended(process, signal.SIGTERM)
        visitor.close()
    assert (code, complained) == (0, "")
    assert "closed" in said
    assert seconds < 10  # five on a machine with nothing else to do


def test_a_server_that_cannot_close_ends_all_the_same():
    port = free_port()
    with running("-c", STUCK.format(port=port)) as process:
        wait_for(f"http://127.0.0.1:{port}/liveness")
        seconds, code, _, complained = ended(process, signal.SIGTERM)
    assert (code, complained) == (0, "")
    assert 2.5 < seconds < 10


def test_the_command_line_ends_gracefully_and_leaves_no_socket(tmp_path):
    path = tmp_path / "board.sock"
    with running("-m", "workbench.cli", "serve", "--unix-socket", str(path)) as process:
        wait_at(path)
        seconds, code, said, complained = ended(process, signal.SIGTERM)
    assert (code, said) == (0, "")
    assert "Traceback" not in complained
    assert seconds < 10  # five on a machine with nothing else to do
    assert not path.exists()


def test_a_server_that_is_told_to_end_while_it_is_made_leaves_no_socket(tmp_path):
    path = tmp_path / "board.sock"
    with running("-c", EARLY.format(path=str(path))) as process:
        said, complained = process.communicate(timeout=60)
    assert (process.returncode, said, complained) == (0, "", "")
    assert not path.exists()


def wait_at(path):
    for _ in range(1200):
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(path))
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"{path} did not come up")
