"""The architecture of a published Transformer from its `config.json`, with its exact parameter count."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from workbench.models.layers.local_attention import is_local, visible_share

KINDS = ("decoder", "encoder", "encoder-decoder", "vision")


@dataclass(frozen=True, slots=True)
class Architecture:
    """Sizes and choices of a Transformer. Sizes are per layer; 0 means absent.

    - `layers`: of the decoder, or of the only stack; `encoder_layers`: of the encoder before it, without
      cross-attention;
    - `dense_layers`: the first layers, without experts; `d_ff`: width of a dense layer, `d_expert`: of one expert,
      `d_shared`: of all shared experts together;
    - `q_rank`, `kv_rank`, `d_rotary`, `d_value`: latent attention (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1); a
      `q_rank` of 0 projects queries in one product;
    - `norm`: `rms`, `layer` or `none` (without parameters), `layer_norms` of them per layer; `qk_norm`: queries and
      keys are normalized per `head` or over their whole `width`;
    - `window`: tokens that local layers see, `pattern` which layers these are, `chunked` whether it is their chunk of a sequence
      (`models.layers.local_attention`);
    - `learned`: rows of a table of positions; `context`: tokens that the model was trained on;
    - `stem`: parameters outside the layers besides the token table, positions, head and last norms;
    - `quantized`: quantization of the weights according to the file.

    **Invariants**

    - `kv_heads` divides `heads`; `top_k` is at most `experts`; with experts, fewer than `layers` layers are dense.
    """

    family: str
    kind: str
    layers: int
    d_model: int
    heads: int
    kv_heads: int
    d_head: int
    d_ff: int
    vocab: int
    gated: bool
    norm: str
    context: int
    tied: bool = False
    layer_norms: int = 2
    final_norms: int = 1
    qk_norm: str = ""
    biases: tuple[str, ...] = ()
    learned: int = 0
    window: int = 0
    pattern: str = ""
    chunked: bool = False
    encoder_layers: int = 0
    source: int = 0
    experts: int = 0
    top_k: int = 0
    d_expert: int = 0
    d_shared: int = 0
    shared_gate: bool = False
    expert_bias: bool = False
    sinks: bool = False
    dense_layers: int = 0
    q_rank: int = 0
    kv_rank: int = 0
    d_rotary: int = 0
    d_value: int = 0
    stem: int = 0
    quantized: str = ""

    @property
    def gates(self) -> int:
        """Input products of a feed-forward layer."""
        return 2 if self.gated else 1

    @property
    def sparse_layers(self) -> int:
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def local_layers(self) -> int:
        return sum(is_local(self, self.window + 1, layer) for layer in range(self.layers))

    def count_local(self, seq: int) -> int:
        """Layers that see fewer than `seq` tokens."""
        return self.local_layers if self.window < seq else 0

    def seen_keys(self, seq: int) -> float:
        """Keys that a token of a causal sequence sees on average, summed over the layers."""
        local = self.count_local(seq)
        part = local * visible_share(seq, self.window, chunked=self.chunked) if local else 0.0
        return seq * (part + (self.layers - local) / 2)

    def cached_rows(self, seq: int) -> int:
        """Rows of a sequence's caches after `seq` tokens, summed over the layers."""
        local = self.count_local(seq)
        return local * self.window + (self.layers - local) * seq

    @property
    def by_part(self) -> Mapping[str, int]:
        return self._count(self.experts)

    @property
    def parameters(self) -> int:
        return sum(self.by_part.values())

    @property
    def active(self) -> int:
        """Parameters used per token; the token table counts once, as the head."""
        unused = 0 if self.tied else self.vocab * self.d_model
        return sum(self._count(self.top_k).values()) - unused

    def _count(self, experts: int) -> Mapping[str, int]:
        table = self.vocab * self.d_model
        cross = self.layers if self.encoder_layers else 0
        dense = self.layers + self.encoder_layers - self.sparse_layers
        norms = self.layer_norms * (self.layers + self.encoder_layers) + cross + self.final_norms
        return {
            "embedding": table + self.learned * self.d_model,
            "attention": (self.layers + self.encoder_layers + cross) * self.attention_parameters,
            "feed-forward": dense * self.dense_parameters,
            "experts": self.sparse_layers * self._expert_parameters(experts),
            "norms": norms * self._norm(self.d_model),
            "head": (0 if self.tied else table) + ("head" in self.biases) * self.vocab,
            "other": self.stem,
        }

    def _norm(self, width: int) -> int:
        return width * {"rms": 1, "layer": 2, "none": 0}[self.norm]

    @property
    def attention_parameters(self) -> int:
        if self.kv_rank:
            return self._latent_parameters
        projected, mixed = (self.heads + 2 * self.kv_heads) * self.d_head, self.heads * self.d_head
        biases = ("qkv" in self.biases) * projected + ("qv" in self.biases) * (mixed + self.kv_heads * self.d_head)
        norms = {"": 0, "head": 2 * self.d_head, "width": (self.heads + self.kv_heads) * self.d_head}[self.qk_norm]
        output = mixed * self.d_model + ("output" in self.biases) * self.d_model
        return self.d_model * projected + biases + output + norms + self.sinks * self.heads

    @property
    def _latent_parameters(self) -> int:
        query = self.heads * (self.d_head + self.d_rotary)
        queries = self.q_rank * (self.d_model + query) + self._norm(self.q_rank) if self.q_rank else self.d_model * query
        down = self.d_model * (self.kv_rank + self.d_rotary) + self._norm(self.kv_rank)
        return queries + down + self.kv_rank * self.heads * (self.d_head + self.d_value) + self.heads * self.d_value * self.d_model

    @property
    def dense_parameters(self) -> int:
        biases = self.gates * self.d_ff + self.d_model if "mlp" in self.biases else 0
        return (self.gates + 1) * self.d_model * self.d_ff + biases

    def _expert_parameters(self, experts: int) -> int:
        expert = (self.gates + 1) * self.d_model * self.d_expert
        expert += self.gates * self.d_expert + self.d_model if "experts" in self.biases else 0
        router = self.experts * (self.d_model + ("router" in self.biases) + self.expert_bias)
        return experts * expert + router + (self.gates + 1) * self.d_model * self.d_shared + self.shared_gate * self.d_model

    @property
    def adapter_parameters(self) -> int:
        """Parameters of adapters of rank 1 for the four products of each layer (`models.layers.low_rank_adapters`)."""
        heads, keys = self.heads * self.d_head, 2 * self.kv_heads * self.d_head
        return self.layers * (4 * self.d_model + 2 * heads + keys + (self.gates + 1) * self.d_ff)

    @property
    def cached_values(self) -> int:
        """Cached values per token and layer: keys and values, or their latent."""
        return self.kv_rank + self.d_rotary if self.kv_rank else 2 * self.kv_heads * self.d_head


def pad_vocab(vocab: int, multiple: int = 128) -> int:
    """Round the vocabulary up like Megatron-LM (`--make-vocab-size-divisible-by`), so that devices can share it."""
    return ceil(vocab / multiple) * multiple
