"""The model zoo: plain JAX functions on dictionaries of arrays, with named dimensions.

>>> from workbench.models import ALL_MODELS
>>> [model.name for model in ALL_MODELS]
['two_layer', 'einsum', 'mnist', 'decoder', 'mixture', 't5', 'conformer', 'unet', 'amoebanet', 'deep_unet', \
'decoder_prefill', 'decoder_decode', 'mixture_prefill', 'mixture_decode', 'gpt']

Every size and choice of a preset is an argument: a published model needs no code.

>>> build("decoder", preset="llama3-8b", layers=2, d_ff=1024, seq=512).dims["d_ff"]
(1024,)

Parts of a step (`decoder_stage.micro_batch(config)`, `decoder_stage.update(config)`) take a configuration: a `DecoderConfig`
or a `MixtureConfig`, new or made from a preset:

>>> round(choose_config("decoder", preset="llama3-8b").parameters / 1e9, 2)
8.03

The inference models, `decoder_prefill` and `decoder_decode`, `mixture_prefill` and `mixture_decode`, take the same widths, and
`context`, `weights` and `cache`: the length of the KV cache, and the dtypes of weights and cache.

>>> program = build("decoder_decode", preset="llama3-8b", batch=32, context=8192, weights="int8", cache="int8")
>>> [str(each) for each in program.arguments if each.path == "cache/layers/key"]
['cache/layers/key: int8[layers=32, context=8192, kv_heads=8, batch=32, d_head=128]']

Dimensions have the same names in all models, so a layout's rule has the same meaning:

| name | meaning | models |
|---|---|---|
| `batch` | examples | all |
| `seq`, `target_seq` | input tokens or frames, output tokens | Transformers, `conformer`; `t5` |
| `context` | tokens that a cache can hold | `..._prefill`, `..._decode` |
| `d_latent` | features per token in the cache of latent attention | `mixture`, `mixture_prefill`, `mixture_decode` |
| `depth`, `height`, `width`; `rows`, `cols` | voxels and pixels; pixels | `unet`, `amoebanet`, `deep_unet`; `mnist` |
| `vocab`, `classes` | classes of a token or frame, of a voxel or image | Transformers, `conformer`; `unet`, `amoebanet`, `mnist` |
| `features`, `image_channels`, `io` | features of a frame, a voxel or pixel, an example | `conformer`; U-Nets, `amoebanet`; `two_layer` |
| `d_model`, `channels` | width of the residual stream, between blocks | Transformers and `conformer`; the U-Nets and `amoebanet` |
| `d_ff`, `hidden_channels`, `hidden` | width between a block's two products | Transformers, `conformer`, U-Nets, `amoebanet`, `mnist` |
| `narrow_channels` | width within a bottleneck | `amoebanet` |
| `d_expert`, `d_shared` | the same for one routed expert, for the shared experts | `mixture` |
| `heads`; `kv_heads`, `q_per_kv` | heads; heads of keys and values, and of queries for each | Transformers, `conformer`; `decoder` |
| `d_head`, `d_value`, `d_query` | width of a head; of its value, of its query with position | Transformers, `conformer`; `mixture` |
| `experts`, `choices` | experts in the computation, and in the routing | `mixture` |
| `layers`, `sparse` | scanned layers; scanned layers with experts | Transformers, `conformer`; `mixture` |
| `qkv`, `pairs`, `gate_up` | joint projections: query, key, value; key, value; gate, value | Transformers, `conformer` |
| `kernel`, `kernel_depth` ... | kernel size of a convolution | `conformer`, the U-Nets and `amoebanet` |
| `I`, `J`, `K` ... | indices of its equation | `einsum` |
"""

from workbench.models.decoder import decoder_stage as decoder_stage
from workbench.models.decoder.decoder_config import DecoderConfig as DecoderConfig
from workbench.models.mixture import mixture_stage as mixture_stage
from workbench.models.mixture.mixture_config import MixtureConfig as MixtureConfig
from workbench.models.registry import ALL_MODELS as ALL_MODELS
from workbench.models.registry import Model as Model
from workbench.models.registry import build as build
from workbench.models.registry import choose_config as choose_config
