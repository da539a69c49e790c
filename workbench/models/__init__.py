"""The model zoo: plain JAX functions on dictionaries of arrays, with named dimensions.

>>> from workbench.models import ALL_MODELS
>>> [model.name for model in ALL_MODELS]
['two_layer', 'einsum', 'mnist', 'decoder', 'mixture', 't5', 'conformer', 'unet', 'amoebanet', 'deep_unet', \
'decoder_prefill', 'decoder_decode', 'mixture_prefill', 'mixture_decode', 'gpt']

Every size and choice of a preset is an argument: a published model needs no code.

>>> build("decoder", preset="llama3-8b", layers=2, d_ff=1024, seq=512).dims["d_ff"]
(1024,)

A configuration of its own, for parts of a step (`decoder_stage.micro_batch(config)`, `decoder_stage.update(config)`), is a `DecoderConfig`
or a `MixtureConfig`, or that of a preset with changes:

>>> round(choose_config("decoder", preset="llama3-8b").parameters / 1e9, 2)
8.03

Inference of two of them, `decoder_prefill` and `decoder_decode`, `mixture_prefill` and `mixture_decode`, takes the same widths, and
`context`, `weights` and `cache`: the length of the cache of keys and values, and the types that weights and cache are kept in.

>>> program = build("decoder_decode", preset="llama3-8b", batch=32, context=8192, weights="int8", cache="int8")
>>> [str(each) for each in program.arguments if each.path == "cache/layers/key"]
['cache/layers/key: int8[layers=32, context=8192, kv_heads=8, batch=32, d_head=128]']

Dimensions have the same names in all of them, so that a layout's rule means the same:

| name | what it counts | where |
|---|---|---|
| `batch` | examples | all |
| `seq`, `target_seq` | tokens or frames read, tokens written | Transformers, `conformer`; `t5` |
| `context` | tokens that a cache has places for | `..._prefill`, `..._decode` |
| `d_latent` | numbers that a latent attention caches of a token | `mixture`, `mixture_prefill`, `mixture_decode` |
| `depth`, `height`, `width`; `rows`, `cols` | voxels and pixels; pixels | `unet`, `amoebanet`, `deep_unet`; `mnist` |
| `vocab`, `classes` | what a token, frame, voxel or image may be | Transformers, `conformer`; `unet`, `amoebanet`, `mnist` |
| `features`, `image_channels`, `io` | numbers of a frame, a voxel or pixel, an example | `conformer`; U-Nets, `amoebanet`; `two_layer` |
| `d_model`, `channels` | numbers of the stream between blocks | Transformers and `conformer`; the U-Nets and `amoebanet` |
| `d_ff`, `hidden_channels`, `hidden` | numbers between a block's two products | Transformers, `conformer`, U-Nets, `amoebanet`, `mnist` |
| `narrow_channels` | numbers within a bottleneck | `amoebanet` |
| `d_expert`, `d_shared` | the same, of one expert, of those that every token passes | `mixture` |
| `heads`; `kv_heads`, `q_per_kv` | heads; heads of keys and values, and of queries for each | Transformers, `conformer`; `decoder` |
| `d_head`, `d_value`, `d_query` | numbers of a head; of its value, of its query with position | Transformers, `conformer`; `mixture` |
| `experts`, `choices` | experts where they compute, and where a token chooses | `mixture` |
| `layers`, `sparse` | layers where they are scanned; of these, those with experts | Transformers, `conformer`; `mixture` |
| `qkv`, `pairs`, `gate_up` | what is projected together: query, key, value; key, value; gate, value | Transformers, `conformer` |
| `kernel`, `kernel_depth` ... | how far a convolution sees | `conformer`, the U-Nets and `amoebanet` |
| `I`, `J`, `K` ... | what its equation says | `einsum` |
"""

from workbench.models.decoder import decoder_stage as decoder_stage
from workbench.models.decoder.decoder_config import DecoderConfig as DecoderConfig
from workbench.models.mixture import mixture_stage as mixture_stage
from workbench.models.mixture.mixture_config import MixtureConfig as MixtureConfig
from workbench.models.registry import ALL_MODELS as ALL_MODELS
from workbench.models.registry import Model as Model
from workbench.models.registry import build as build
from workbench.models.registry import choose_config as choose_config
