"""Which half of the third-party programs a number may be fitted on, and which half tests it: the name decides, and nobody else.

How far a figure may be off is not said by the programs that its numbers were fitted on: some of the other half say it (`is_ranged`), and
the rest tests that, too.
"""

from hashlib import sha256
from typing import Literal

Half = Literal["fitted", "tested"]


def half_of(program: str) -> Half:
    """`fitted` where the SHA-256 of the name, read as a number, is even; else `tested`.

    >>> half_of("flax_llama"), half_of("haiku_resnet")
    ('tested', 'tested')
    """
    return "tested" if sha256(program.encode()).digest()[-1] % 2 else "fitted"


def is_ranged(program: str) -> bool:
    """Whether a program that tests the figures is one that their ranges are made of: where the number's next bit is set, too.

    >>> is_ranged("flax_llama"), is_ranged("flax_bert"), is_ranged("flax_gpt2")
    (True, False, False)
    """
    return half_of(program) == "tested" and bool(sha256(program.encode()).digest()[-1] & 2)
