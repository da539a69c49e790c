"""Rematerialisation: which intermediate values of a layer are kept for the backward pass, and which are computed again.

    as traced               what the function itself says with `jax.checkpoint`
    none                    everything that the backward pass reads is kept
    full                    nothing but a layer's inputs is kept
    dots                    results of matrix products are kept
    dots_no_batch           results of matrix products without batch dimensions are kept: of weights, not of attention
    offload_dots_no_batch   the same results are kept in the host's memory (MaxText's `minimal_offloaded`)
    dots_every:N            of these results the first and every N-th after it are kept, and what a fused attention computes
    save:NAME+...           values named with `checkpoint_name` are kept
    offload:NAME+...        named values are kept in the host's memory
    recompute:SCOPE+...     everything is kept but what is computed in these named scopes

`dots_every`, `save` and `offload` go together, `save:a+b offload:c`. What is not kept is recomputed, at the cost of its arithmetic.
What is about layers may be said for a part of them: `full layers:1/2` keeps nothing of the first of every 2 layers and everything of the
others (`tracing.jaxpr.choose_layers` says how they are counted); Megatron-LM recomputes some layers of a stage alike, by its
`--recompute-method block --recompute-num-layers`.
Megatron-LM's selective recomputation (Korthikanti et al. 2022) is `recompute:` with the scopes of the attention's core; torchtitan's
selective activation checkpointing of single operations is `dots_every:2`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from workbench.errors import RematError

OFFLOAD_DOTS = "offload_dots_no_batch"
PLAIN = ("as traced", "none", "full", "dots", "dots_no_batch", OFFLOAD_DOTS)
NAMED = ("save", "offload", "recompute")
EVERY = "dots_every"
ALL_LAYERS = (1, 1)
_OF_ALL = ("as traced", "none", "recompute")  # policies that are not about single layers
_PART = "layers"
_MOST_LAYERS = 128  # of which the first few are meant: in a loop, so many are traced as one iteration
_MOST_DIGITS = 6
_FORBIDDEN = frozenset(" +:,;")  # what separates names in text


@dataclass(frozen=True, slots=True)
class Remat:
    """A rematerialisation policy, the names it applies to, and for which layers it is.

    >>> print(Remat.parse("save:attention_out + mlp_hidden  offload:query_key_value"))
    save:attention_out+mlp_hidden offload:query_key_value

    **Invariants**

    - A plain policy has no names; `save`, `offload` and `recompute` have at least one each.
    - `dots_every`, `save` and `offload` may stand together, each once and without a name in common; nothing else may.
    - `offloaded` are the names of `offload`, `names` those of `save` or `recompute`.
    - `every` is a whole number from 1 with `dots_every`, else 0.
    - `layers` are M and B: the policy is for the first M of every B layers, 0 < M < B <= 128, the others keep everything; or `ALL_LAYERS`.
      `as traced`, `none` and `recompute` are for all.
    """

    policy: str = "as traced"
    names: tuple[str, ...] = ()
    offloaded: tuple[str, ...] = ()
    every: int = 0
    layers: tuple[int, int] = ALL_LAYERS

    def __post_init__(self) -> None:
        if self.policy not in (*PLAIN, *NAMED, EVERY):
            raise _unknown_policy(self.policy)
        if type(self.every) is not int or (self.every < 1 if self.policy == EVERY else self.every):
            raise RematError(
                f"Remat `{EVERY}` requires a whole number from 1; no other policy accepts one.",
                [f"write `{EVERY}:2` to keep every second dot"],
            )
        if self.policy in PLAIN and (self.names or self.offloaded):
            raise RematError(f"Remat `{self.policy}` takes no names.", ["name values with `save:NAME+...`"])
        if self.offloaded and self.policy not in ("save", "offload", EVERY):
            raise RematError(f"Remat `{self.policy}` cannot be combined with `offload`.", ["combine `offload` with `save`"])
        if self.policy in NAMED and not (self.offloaded if self.policy == "offload" else self.names):
            raise RematError(f"Remat `{self.policy}:` needs a name.", [f"write `{self.policy}:NAME`; join several with `+`"])
        for name in {name for name in self.names if name in self.offloaded}:
            raise RematError(f"`{name}` cannot be both kept on the device and offloaded.", ["name it once"])
        for name in (*self.names, *self.offloaded):
            if not name or _FORBIDDEN & set(name):
                raise RematError(f"`{name[:80]}` cannot be a name in a remat policy.", ["use names without spaces, `+`, `:`, `,` and `;`"])
        _verify_layers(self)

    @property
    def uses_host(self) -> bool:
        """Whether activations are kept in the host's memory.

        >>> Remat("offload_dots_no_batch").uses_host, Remat("full").uses_host
        (True, False)
        """
        return self.policy == OFFLOAD_DOTS or bool(self.offloaded)

    @classmethod
    def parse(cls, text: str) -> "Remat":
        """The inverse of `str`; an empty text is `as traced`. Raises `RematError`."""
        written = " ".join(text.replace(",", " ").split()).replace(" + ", "+").replace("+ ", "+").replace(": ", ":")
        words = " ".join(part for part in written.split(" ") if part.partition(":")[0] != _PART)
        layers = _parse_layers([part for part in written.split(" ") if part.partition(":")[0] == _PART])
        if words in ("", *PLAIN):
            return cls(words or "as traced", layers=layers)
        found: dict[str, tuple[str, ...]] = {}
        for part in words.split(" "):
            policy, colon, names = part.partition(":")
            if policy not in (*NAMED, EVERY) or policy in found:
                raise _unknown_policy(part)
            found[policy] = tuple(names.split("+")) if colon and names else ()
        offloaded = found.pop("offload", ())
        if EVERY in found and "recompute" not in found:
            return cls(EVERY, found.get("save", ()), offloaded, _whole_number("+".join(found[EVERY])), layers)
        if len(found) > 1:
            raise RematError(f"Remat `{words}` both saves and recomputes.", ["choose one of the two"])
        kind = next(iter(found), "offload")
        return cls(kind, found.get(kind, ()), offloaded, layers=layers)

    def __str__(self) -> str:
        parts = [f"{EVERY}:{self.every}"] if self.every else []
        parts += [f"{'save' if self.every else self.policy}:{'+'.join(self.names)}"] if self.names else []
        parts += [f"offload:{'+'.join(self.offloaded)}"] if self.offloaded else []
        parts = parts or [self.policy]
        return " ".join(parts if self.layers == ALL_LAYERS else [*parts, f"{_PART}:{self.layers[0]}/{self.layers[1]}"])


def _whole_number(text: str) -> int:
    """The number that a text is, 0 for another."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def _parse_layers(parts: Sequence[str]) -> tuple[int, int]:
    """M and B of the one `layers:M/B` of a text; all layers where it has none."""
    if not parts:
        return ALL_LAYERS
    share = parts[0].partition(":")[2].partition("/")
    layers = _whole_number(share[0]), _whole_number(share[2])
    if len(parts) > 1 or not _is_part(layers):
        raise _no_part(" ".join(parts))
    return layers


def _verify_layers(remat: Remat) -> None:
    if remat.layers == ALL_LAYERS:
        return
    if not (isinstance(remat.layers, tuple) and len(remat.layers) == 2 and _is_part(remat.layers)):
        raise _no_part(f"{_PART}:{'/'.join(map(str, remat.layers)) if isinstance(remat.layers, tuple) else remat.layers}")
    if remat.policy in _OF_ALL:
        raise RematError(
            f"Remat `{remat.policy}` applies to all layers; `{_PART}:{remat.layers[0]}/{remat.layers[1]}` limits a policy to some layers.",
            [f"write `full {_PART}:{remat.layers[0]}/{remat.layers[1]}`", f"leave `{_PART}` out"],
        )


def _is_part(layers: tuple[int, int]) -> bool:
    return all(type(each) is int for each in layers) and 0 < layers[0] < layers[1] <= _MOST_LAYERS


def _no_part(text: str) -> RematError:
    return RematError(
        f"`{text[:80]}` is not a part of the layers: `{_PART}:M/B` are the first M of every B layers, with 0 < M < B <= {_MOST_LAYERS}.",
        [f"write `{_PART}:1/2` for every second layer", "leave it out for all layers"],
    )


def _unknown_policy(text: str) -> RematError:
    known = [*PLAIN, f"{EVERY}:N", *(f"{policy}:NAME+..." for policy in NAMED)]
    close = get_close_matches(text, PLAIN, n=1)
    return RematError(
        f"There is no remat policy `{text[:80]}`; there are {', '.join(f'`{each}`' for each in known)}.",
        [f"did you mean `{close[0]}`?"] if close else ["use one of these"],
    )


AS_TRACED = Remat()
