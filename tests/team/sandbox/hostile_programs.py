"""Programs that try to get out of a sandbox, or to bring the machine down from within.

Each gets `SECRET` (a file of the server's), `OUTSIDE` (a folder of the server's that it shall not write to), `PORT` and `DATAGRAM` (where
somebody listens), `SOCKET` and `ABSTRACT` (the names of Unix sockets) and `CODE` (its own folder) as variables, and prints ESCAPED where
it has succeeded.
"""

from dataclasses import dataclass

from workbench.team.sandbox.exit_reason import EndKind

SYSCALL = """
import ctypes, os, platform
from workbench.team.sandbox.syscall_filter import ENDING, FAILING, MISSING
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    number = {**ENDING, **FAILING, **MISSING}[name][platform.machine() == "aarch64"]
    if libc.syscall(number, *(ctypes.c_long(each) for each in arguments)) >= 0:
        print("ESCAPED by", name)
    elif ctypes.get_errno() == 1:
        print("refused", name)
"""


@dataclass(frozen=True)
class HostileProgram:
    name: str
    code: str
    kinds: tuple[EndKind, ...]  # how it may end
    words: str = ""  # of the sentence, or of what it prints
    alone: bool = True  # whether the limits and the filter of system calls are enough, without bubblewrap
    seconds: float = 120.0  # none but those that say so reaches it
    processor_seconds: int = 2


def tries(*lines: str) -> str:
    """Each of these statements succeeds only where there is a way out."""
    return "\n".join(
        f"try:\n    {line}\n    print('ESCAPED by', {line!r})\nexcept OSError as error:\n    print('refused:', error)" for line in lines
    )


def lines(*each: str) -> str:
    return "\n".join(each) + "\n"


FAILED, FINISHED, REFUSED = (EndKind.FAILED,), (EndKind.FINISHED,), (EndKind.REFUSED_CALL,)

HOSTILE = (
    HostileProgram(
        "reads a secret",
        "print('ESCAPED', open(SECRET).read())",
        FAILED,
        "No such file",
        alone=False,
    ),
    HostileProgram(
        "writes outside",
        tries("open(OUTSIDE + '/written', 'w')", "open('/written', 'w')", "open('/usr/lib/written', 'w')"),
        FINISHED,
        "refused",
        alone=False,
    ),
    HostileProgram(
        "writes to its own code and to Python",
        "import json, sys\n" + tries("open(CODE + '/written', 'w')", "open(json.__file__, 'a')", "open(sys.prefix + '/written', 'w')"),
        FINISHED,
        "Read-only",
        alone=False,
    ),
    HostileProgram(
        "lists /etc",
        lines(
            "import os",
            "assert set(os.listdir('/etc')) <= {'ld.so.cache'}, 'ESCAPED'",
            "open('/etc/passwd')",
        ),
        FAILED,
        "No such file",
        alone=False,
    ),
    HostileProgram(
        "connects by TCP",
        lines(
            "import socket",
            "socket.create_connection(('127.0.0.1', PORT), 3)",
            "print('ESCAPED')",
        ),
        FAILED,
        "not supported",
    ),
    HostileProgram(
        "sends a datagram",
        lines(
            "import socket",
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'ESCAPED', ('127.0.0.1', DATAGRAM))",
        ),
        FAILED,
        "not supported",
    ),
    HostileProgram(
        "connects to a Unix socket",
        "import socket\n" + tries("socket.socket(socket.AF_UNIX).connect(SOCKET)", "socket.socket(socket.AF_UNIX).connect(ABSTRACT)"),
        FINISHED,
        "refused",
        alone=False,
    ),
    HostileProgram(
        "speaks to the machine below",
        "import socket\n"
        + tries(
            "socket.socket(40, socket.SOCK_STREAM)",
            "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
            "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        ),
        FINISHED,
        "not supported",
    ),
    HostileProgram(
        "asks for a name",
        lines(
            "import socket",
            "print('ESCAPED', socket.getaddrinfo('example.com', 80))",
        ),
        FAILED,
        "gaierror",
    ),
    HostileProgram(
        "is a fork bomb",
        "import os\nwhile True:\n    os.fork()",
        # which of its processes speaks last is a race; a fork beside a first process that has just ended says ENOMEM (`alloc_pid`)
        (EndKind.TASKS, EndKind.FAILED, EndKind.DEADLINE, EndKind.KILLED, EndKind.MEMORY, EndKind.PROCESSOR),
        alone=False,
        seconds=2,
    ),
    HostileProgram(
        "starts threads without end",
        lines(
            "import threading, time",
            "while True:",
            "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        ),
        (EndKind.TASKS, EndKind.MEMORY),
        alone=False,
    ),
    HostileProgram(
        "allocates 64 GB",
        "bytearray(64 << 30)",
        (EndKind.MEMORY,),
        "256 MiB",
    ),
    HostileProgram(
        "allocates in many processes",
        lines(
            "import os, time",
            "for _ in range(8):",
            "    if os.fork() == 0:",
            "        break",
            "kept = os.urandom(100 << 20)",
            "time.sleep(60)",
        ),
        (EndKind.MEMORY,),
        "256 MiB",
    ),
    HostileProgram(
        "traces its parent",
        SYSCALL + "call('ptrace', 16, os.getppid(), 0, 0)",
        REFUSED,
        "system call",
    ),
    HostileProgram(
        "kills its parent and everybody",
        "import os, signal\n"
        + "\n".join(
            f"try:\n    os.kill({pid}, signal.SIGKILL)\nexcept OSError as error:\n    print('refused', error)"
            for pid in ("os.getppid()", "1", "SERVER", "-1")
        ),
        (EndKind.FINISHED, EndKind.KILLED),
        alone=False,
    ),
    HostileProgram(
        "leaves an orphan",
        lines(
            "import os, time",
            "if os.fork() == 0:",
            "    os.setsid()",
            "    if os.fork() == 0:",
            "        while True:",
            "            time.sleep(0.05)",
        ),
        FINISHED,
    ),
    HostileProgram(
        "leaves a spinning orphan at its deadline",
        lines(
            "import os",
            "if os.fork() == 0:",
            "    os.setsid()",
            "while True:",
            "    pass",
        ),
        (EndKind.DEADLINE,),
        "time limit of 1 s",
        seconds=1,
    ),
    HostileProgram(
        "never ends its import",
        "while True:\n    pass",
        (EndKind.DEADLINE,),
        "time limit of 1 s",
        seconds=1,
    ),
    HostileProgram(
        "computes on when its time is up",
        lines(
            "import signal",
            "signal.signal(signal.SIGXCPU, signal.SIG_IGN)",
            "while True:",
            "    pass",
        ),
        (EndKind.PROCESSOR, EndKind.KILLED),
        processor_seconds=1,
    ),
    HostileProgram(
        "prints without end",
        "import os\nwhile True:\n    os.write(1, b'flood ' * 10_000)",
        (EndKind.OUTPUT,),
        "8.00 MiB",
    ),
    HostileProgram(
        "writes a huge file",
        lines(
            "import tempfile",
            "with tempfile.TemporaryFile() as file:",
            "    while True:",
            "        file.write(bytes(1 << 20))",
        ),
        FAILED,
        "File too large",
    ),
    HostileProgram(
        "fills its disk",
        lines(
            "import os",
            "for place in ('/tmp', '/dev/shm', os.environ['HOME']):",
            "    written = 0",
            "    try:",
            "        for number in range(1000):",
            "            with open(f'{place}/{number}', 'wb') as file:",
            "                file.write(bytes(1 << 20))",
            "            written += 1",
            "    except OSError as error:",
            "        print(error)",
            "    if written > 20:",
            "        print('ESCAPED', place, written)",
        ),
        FINISHED,
        "No space left",
        alone=False,
    ),
    HostileProgram(
        "fills what has no size",
        "import os\n"
        + tries("open('/dev/written', 'w')", "open('/home/written', 'w')", "os.mkdir('/run')", "open('/proc/written', 'w')")
        + SYSCALL
        + lines(
            "call('memfd_create', 0, 0)",
            "call('shmget', 0, 1 << 30, 0o1600)",
        ),
        FINISHED,
        "refused memfd_create",
        alone=False,
    ),
    HostileProgram(
        "makes and opens devices",
        "import os, stat\n"
        + tries(
            "os.mknod('/tmp/memory', stat.S_IFCHR | 0o666, os.makedev(1, 1))",
            "open('/dev/mem', 'rb')",
            "open('/dev/kmsg', 'rb')",
            "open('/dev/sda', 'rb')",
            "open('/dev/vda', 'rb')",
        ),
        FINISHED,
        "refused",
        alone=False,
    ),
    HostileProgram(
        "mounts",
        SYSCALL + "call('mount', 0, 0, 0, 0, 0)",
        REFUSED,
        "system call",
    ),
    HostileProgram(
        "makes a user namespace",
        SYSCALL
        + lines(
            "call('unshare', 0x10000000)",
            "number = 220 if platform.machine() == 'aarch64' else 56",
            "if (found := libc.syscall(number, 0x10000000 | 17, 0, 0, 0, 0)) == 0:",
            "    print('ESCAPED by clone', flush=True)",
            "    os._exit(0)",
            "print('clone', found, ctypes.get_errno())",
        ),
        FINISHED,
        "clone -1 1",
    ),
    HostileProgram(
        "reads the server's environment",
        lines(
            "import os, pathlib",
            "print(os.environ)",
            "for each in pathlib.Path('/proc').glob('[0-9]*/environ'):",
            "    try:",
            "        print(each.read_text())",
            "    except OSError as error:",
            "        print('refused:', error)",
        ),
        FINISHED,
        alone=False,
    ),
    HostileProgram(
        "counts the processes of others",
        lines(
            "import os",
            "found = [each for each in os.listdir('/proc') if each.isdecimal()]",
            "print('ESCAPED' if len(found) > 3 else 'few', found)",
        ),
        FINISHED,
        "few",
        alone=False,
    ),
    HostileProgram(
        "reads the server's descriptors",
        lines(
            "import os",
            "found = set(os.listdir('/proc/self/fd')) - {'0', '1', '2'}",
            "print('ESCAPED' if len(found) > 1 else 'none', found)",
        ),
        FINISHED,
        "none",
    ),
    HostileProgram(
        "follows a link out of its code",
        "print('ESCAPED', open(CODE + '/link').read())",
        FAILED,
        "No such file",
        alone=False,
    ),
    HostileProgram(
        "runs a set-user-id program",
        "import os, subprocess\n"
        + tries("os.setuid(0)", "os.setresuid(0, 0, 0)")
        + lines(
            "",
            "print('id:', subprocess.run([CODE + '/become_root', '-u'], capture_output=True, text=True).stdout)",
        ),
        FINISHED,
        "refused",
        alone=False,
    ),
    HostileProgram(
        "digs in the kernel",
        SYSCALL
        + lines(
            "for name in ('keyctl', 'userfaultfd', 'perf_event_open', 'process_vm_readv', 'add_key'):",
            "    call(name, 0, 0, 0, 0, 0)",
            "call('bpf', 0, 0, 0)",
        ),
        REFUSED,
    ),
    HostileProgram(
        "sets the kernel",
        tries("open('/proc/sys/kernel/core_pattern', 'w')", "open('/proc/sysrq-trigger', 'w')", "open('/proc/sys/kernel/hostname', 'w')"),
        FINISHED,
        "refused",
        alone=False,
    ),
    HostileProgram(
        "types into the terminal",
        "import fcntl\n" + tries("fcntl.ioctl(0, 0x5412, b'x')"),
        FINISHED,
        "not permitted",
    ),
    HostileProgram(
        "stops itself",
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        (EndKind.DEADLINE,),
        "time limit of 1 s",
        seconds=1,
    ),
    HostileProgram(
        "hides its end",
        lines(
            "import os, signal, time",
            "for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):",
            "    signal.signal(each, signal.SIG_IGN)",
            "os.close(1)",
            "os.close(2)",
            "os.setpgid(0, 0) if os.getpid() != os.getsid(0) else None",
            "time.sleep(60)",
        ),
        (EndKind.DEADLINE,),
        "time limit of 1 s",
        seconds=1,
    ),
)
