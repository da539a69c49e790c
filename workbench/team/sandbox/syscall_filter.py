"""System call filter of sandboxed processes: a seccomp program in classic BPF.

Calls used only in attacks end the process (`ENDING`); calls that libraries may try and can do without fail (`FAILING`).
All others are allowed: namespaces isolate, and the filter removes ways around them. `linux/seccomp.h` defines the
return values, `linux/bpf_common.h` the instructions. A filter reads `struct seccomp_data`: call number at byte 0,
architecture at 4, arguments of 8 bytes each from 16.
"""

import errno
import platform
import socket
import struct
from collections.abc import Iterable

_ALLOW, _END, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_X32 = 0x40000000  # set in numbers of x32 calls, which would bypass the x86-64 table
_NEW_NAMESPACE = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: input into another terminal

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Numbers on x86-64 and aarch64 (`None`: no such call). From 424 on they are the same on all architectures.
ENDING: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "bpf": (321, 280),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "iopl": (172, None),
    "ioperm": (173, None),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
}
FAILING: dict[str, tuple[int | None, int | None]] = {
    "unshare": (272, 97),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    "syslog": (103, 116),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "personality": (135, 92),
    "memfd_create": (319, 279),  # memory not counted by process limits, as for the next three
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
}
MISSING: dict[str, tuple[int | None, int | None]] = {  # fail as on an old kernel, so that libraries use older calls
    "clone3": (435, 435),  # a filter cannot read its flags, which are in memory
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_CLONE, _SOCKET, _IOCTL = (56, 220), (41, 198), (16, 29)

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant


def syscall_filter(network: bool = False, machine: str = "") -> bytes:
    """Return the kernel's filter, empty if unsupported. Only `network` allows internet sockets."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        return b""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in _program(machine, network))


def _program(machine: str, network: bool) -> Iterable[Instruction]:
    column = list(ARCHITECTURES).index(machine)
    yield (_LOAD, 0, 0, _ARCHITECTURE)
    yield (_EQUAL, 1, 0, ARCHITECTURES[machine])
    yield (_RETURN, 0, 0, _END)
    yield (_LOAD, 0, 0, _NUMBER)
    yield (_AT_LEAST, 0, 1, _X32)
    yield (_RETURN, 0, 0, _END)
    for table, answer in ((ENDING, _END), (FAILING, _FAIL | errno.EPERM), (MISSING, _FAIL | errno.ENOSYS)):
        for numbers in table.values():
            number = numbers[column]
            if number is not None:
                yield from ((_EQUAL, 0, 1, number), (_RETURN, 0, 0, answer))
    families = (socket.AF_UNIX, *((socket.AF_INET, socket.AF_INET6) if network else ()))
    yield from _of_call(_CLONE[column], _FIRST_ARGUMENT, [(_ANY_BIT, 0, 1, _NEW_NAMESPACE), (_RETURN, 0, 0, _FAIL | errno.EPERM)])
    for request in _TERMINAL_INPUT:
        yield from _of_call(_IOCTL[column], _SECOND_ARGUMENT, [(_EQUAL, 0, 1, request), (_RETURN, 0, 0, _FAIL | errno.EPERM)])
    allowed = [step for family in families for step in ((_EQUAL, 0, 1, int(family)), (_RETURN, 0, 0, _ALLOW))]
    yield from _of_call(_SOCKET[column], _FIRST_ARGUMENT, [*allowed, (_RETURN, 0, 0, _FAIL | errno.EAFNOSUPPORT)])
    yield (_RETURN, 0, 0, _ALLOW)


def _of_call(number: int, argument: int, steps: list[Instruction]) -> list[Instruction]:
    """Return steps for one call number, on the lower half of an argument; the number is reloaded afterwards."""
    body = [(_LOAD, 0, 0, argument), *steps, (_LOAD, 0, 0, _NUMBER)]
    return [(_EQUAL, 0, len(body), number), *body]
