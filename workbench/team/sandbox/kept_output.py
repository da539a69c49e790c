"""What a process printed, as much as is worth keeping."""

from workbench.units import format_bytes


class KeptOutput:
    """The beginning and the end of a stream of bytes, and how long it was.

    >>> output = KeptOutput(8)
    >>> output.add(b"beginning, middle"), output.add(b" and end")
    (None, None)
    >>> output.text()
    'begi\\n[17 B left out]\\n end'
    """

    def __init__(self, limit: int) -> None:
        self._head_limit = limit - limit // 2
        self._tail_limit = limit // 2
        self._head, self._tail = bytearray(), bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        free = self._head_limit - len(self._head)
        self._head += data[:free]
        self._tail += data[free:]
        if len(self._tail) > self._tail_limit:
            del self._tail[: len(self._tail) - self._tail_limit]

    @property
    def left_out(self) -> int:
        """Bytes that were not kept."""
        return self.total - len(self._head) - len(self._tail)

    @property
    def content(self) -> bytes:
        """What was kept; everything where nothing was `left_out`."""
        return bytes(self._head + self._tail)

    def text(self) -> str:
        """For people, with a note where something is left out."""
        if not self.left_out:
            return self.content.decode(errors="replace")
        note = f"\n[{format_bytes(self.left_out)} left out]\n"
        return self._head.decode(errors="replace") + note + self._tail.decode(errors="replace")

    def last_line(self) -> str:
        """The last line that is not empty, of at most 200 characters."""
        lines = [each for each in (self._tail or self._head).decode(errors="replace").splitlines() if each.strip()]
        return "".join(each if each.isprintable() else " " for each in lines[-1].strip()[:200]) if lines else ""
