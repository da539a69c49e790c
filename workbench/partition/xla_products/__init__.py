"""Products as XLA's partitioner takes them apart."""

from workbench.partition.xla_products.product import product as product
from workbench.partition.xla_products.product import tiling as tiling
from workbench.partition.xla_products.values import LEFT as LEFT
from workbench.partition.xla_products.values import RESULT as RESULT
from workbench.partition.xla_products.values import RIGHT as RIGHT
from workbench.partition.xla_products.values import Mapping as Mapping
from workbench.partition.xla_products.values import Product as Product
from workbench.partition.xla_products.values import Sent as Sent
from workbench.partition.xla_products.values import Shared as Shared
