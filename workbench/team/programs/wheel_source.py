"""The files of a wheel, unpacked and nothing more: no step of a build, no script, no dependency is run or installed."""

import io
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator

from workbench.team.programs.fetch_policy import ProgramRegistryError
from workbench.team.programs.program_tree import TreeWriter

_FILE_NAME = re.compile(
    r"[A-Za-z0-9_.]+-[A-Za-z0-9_.!+]+(-\d[A-Za-z0-9_.]*)?-[a-z0-9.]+-(?P<abi>[a-z0-9_.]+)-(?P<platform>[a-z0-9_.]+)\.whl"
)
_CHUNK = 1 << 16
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_WAY_OUT = "build it with `python -m build --wheel`"


def verify_wheel_name(name: str) -> str:
    """The name of a wheel of Python alone. Raises `ProgramRegistryError` for any other."""
    found = _FILE_NAME.fullmatch(name)
    if found is None:
        raise ProgramRegistryError(f"`{name[:120]}` is no name of a wheel, such as `mine-1.0-py3-none-any.whl`.", [_WAY_OUT])
    if (found["abi"], found["platform"]) != ("none", "any"):
        raise ProgramRegistryError(
            f"`{name}` has parts that are compiled for one kind of machine; programs are of Python alone.",
            ["ask an administrator to install what is compiled in the server's environment"],
        )
    return name


def write_wheel(content: bytes, writer: TreeWriter) -> None:
    """Raises `ProgramRegistryError` for what is no wheel, or has paths that lead out of it, links, or more than a program may have."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [each for each in archive.infolist() if not each.is_dir()]
            _verify_kind([each.filename for each in members])
            for each in members:
                _verify_member(each)
                writer.write(each.filename, _chunks(archive, each))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError, RuntimeError, OverflowError) as error:
        raise ProgramRegistryError(f"The file is no wheel that can be unpacked: {error}.", [_WAY_OUT]) from None


def _verify_kind(names: list[str]) -> None:
    if not any(re.fullmatch(r"[^/]+\.dist-info/WHEEL", each) for each in names):
        raise ProgramRegistryError("The file is an archive, but no wheel: it has no `.dist-info/WHEEL`.", [_WAY_OUT])


def _verify_member(member: zipfile.ZipInfo) -> None:
    mode = member.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise ProgramRegistryError(f"`{member.filename[:120]}` is no file: wheels have no links.", [_WAY_OUT])
    if member.compress_type not in _METHODS or member.flag_bits & 1:
        raise ProgramRegistryError(f"`{member.filename[:120]}` is packed in a way that wheels are not.", [_WAY_OUT])


def _chunks(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(member) as file:
        while chunk := file.read(_CHUNK):
            yield chunk
