"""The model zoo: plain JAX functions on dictionaries of arrays, with named dimensions.

>>> from workbench.models import ALL_MODELS
>>> [model.name for model in ALL_MODELS]
['two_layer', 'mnist', 'decoder', 'mixture', 'gpt']
"""

from workbench.models.registry import ALL_MODELS as ALL_MODELS
from workbench.models.registry import Model as Model
from workbench.models.registry import build as build
