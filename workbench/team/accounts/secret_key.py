"""The server's secret key: made once, in the data folder, for the owner's eyes alone."""

import hmac
import os
import secrets
import stat
from hashlib import sha256
from pathlib import Path

from workbench.errors import WorkbenchError

FILE = "secret_key"
_BYTES = 32


def load_secret_key(data: Path) -> bytes:
    """The key in a data folder; made if there is none. Raises `WorkbenchError` for one that others of the machine can read, or that is
    none."""
    path = data / FILE
    try:
        _make(path)
    except OSError as error:
        raise WorkbenchError(f"The secret key {path} cannot be written: {error.strerror}.", ["give a data folder of your own"]) from None
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise WorkbenchError(f"Others of this machine can read the secret key {path}.", [f"run `chmod 600 {path}`"])
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        key = b""
    if len(key) < _BYTES:
        ways_out = [f"delete {path}: the server makes another, and pages that are open reload"]
        raise WorkbenchError(f"{path} holds no secret key of {_BYTES} bytes.", ways_out)
    return key


def derive_key(secret_key: bytes, purpose: str) -> str:
    """A key for one purpose, so that what is signed for one is never good for another."""
    return hmac.new(secret_key, purpose.encode(), sha256).hexdigest()


def _make(path: Path) -> None:
    """Write a new key, unless there is a file: whole from its first moment, for another process may begin at the same time."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{FILE}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(secrets.token_bytes(_BYTES).hex() + "\n")
    try:
        os.link(draft, path)  # fails where another was faster
    except FileExistsError:
        pass
    finally:
        draft.unlink()
