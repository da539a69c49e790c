"""One server for each database."""

import os
import signal
import subprocess
import sys

import pytest

from workbench.team.store.store import Store, StoreInUseError, claim_store

HOLDER = "The server at https://plans.example.org"
HOLDS = """
import sys, time
from workbench.team.store.store import claim_store
from workbench.team.store.store import Store
with claim_store(Store.open(sys.argv[1]), sys.argv[2]):
    print("claimed", flush=True)
    sys.stdin.read()
"""


def test_a_second_one_is_refused_with_the_address_of_the_first(store):
    second = Store(store.engine)
    with claim_store(store, HOLDER):
        with pytest.raises(StoreInUseError) as error, claim_store(second, "The server at http://localhost:5008"):
            pytest.fail("two servers")
        assert error.value.message == (f"{HOLDER} uses this database. A second process cannot: open rooms live in the first one.")
        with store.engine.connect() as connection:  # the first one goes on
            connection.exec_driver_sql("SELECT 1")
    for holder in ("one after the other", "is no conflict"):
        with claim_store(second, holder):
            """Free again."""


def test_the_lock_ends_with_a_process_that_is_killed(tmp_path):
    address = f"sqlite:///{tmp_path}/team.db"
    command = [sys.executable, "-c", HOLDS, address, HOLDER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "claimed\n"
        with pytest.raises(StoreInUseError, match=HOLDER), claim_store(Store.open(address), "another"):
            pytest.fail("two servers")
        os.kill(process.pid, signal.SIGKILL)
        process.wait(60)
    with claim_store(Store.open(address), "another"):
        assert (tmp_path / "team.db-server").read_text() == "another"
