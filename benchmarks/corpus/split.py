"""Which half of the third-party programs a number may be fitted on, and which half tests it: the name decides, and nobody else."""

from hashlib import sha256
from typing import Literal

Half = Literal["fitted", "tested"]


def half_of(program: str) -> Half:
    """`fitted` where the SHA-256 of the name, read as a number, is even; else `tested`.

    >>> half_of("flax_llama"), half_of("haiku_resnet")
    ('tested', 'tested')
    """
    return "tested" if sha256(program.encode()).digest()[-1] % 2 else "fitted"
