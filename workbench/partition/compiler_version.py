"""What XLA's partitioner does otherwise from one jaxlib to the next: every difference that a prediction depends on, in one place.

XLA:TPU is libtpu's own and goes by its version; what differs there is told by `Backend`.
"""

import re

import jaxlib

_VERSION = tuple(int(number) for number in re.findall(r"\d+", jaxlib.__version__)[:2])

CUTS_BATCHES_OF_TRANSFORMS = _VERSION >= (0, 12)
"""A Fourier transform whose batch dimensions alone are cut sends nothing (`fft_handler.cc`). Before, any that is cut was replicated."""
