"""Rematerialization policies: which intermediate values are saved for the backward pass and which are recomputed.

- `as traced`: the function's own `jax.checkpoint` calls.
- `none`: save everything that the backward pass reads.
- `full`: save only a layer's inputs.
- `dots`: save results of matrix products.
- `dots_no_batch`: save results of matrix products without batch dimensions: of weights, not of attention.
- `offload_dots_no_batch`: keep these results in host memory (MaxText's `minimal_offloaded`).
- `dots_every:N`: save the first and then every N-th of these results, and the results of fused attention.
- `save:NAME+...`: save values named with `checkpoint_name`.
- `offload:NAME+...`: keep named values in host memory.
- `recompute:SCOPE+...`: save everything except values computed in these named scopes.

`dots_every`, `save` and `offload` can be combined: `save:a+b offload:c`. Values that are not saved cost their arithmetic
again. Per-layer policies can be limited to some layers: `full layers:1/2` saves nothing of the first of every 2 layers and
everything of the others (counted as in `tracing.jaxpr.choose_layers`), like Megatron-LM's `--recompute-method block
--recompute-num-layers`. Megatron-LM's selective recomputation (Korthikanti et al. 2022) is `recompute:` with the scopes of
the attention core; torchtitan's selective activation checkpointing per operation is `dots_every:2`.
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
_OF_ALL = ("as traced", "none", "recompute")  # policies that cannot be limited to some layers
_PART = "layers"
_MOST_LAYERS = 128  # maximum B of `layers:M/B`: B layers of a loop are traced as one iteration
_MOST_DIGITS = 6
_FORBIDDEN = frozenset(" +:,;")  # separators of the text form


@dataclass(frozen=True, slots=True)
class Remat:
    """A rematerialization policy, the names it applies to, and its layers.

    >>> print(Remat.parse("save:attention_out + mlp_hidden  offload:query_key_value"))
    save:attention_out+mlp_hidden offload:query_key_value

    **Invariants**

    - A plain policy has no names; `save`, `offload` and `recompute` have at least one each.
    - Only `dots_every`, `save` and `offload` can be combined, each once and without a common name.
    - `offloaded` are the names of `offload`, `names` the names of `save` or `recompute`.
    - `every` is an integer from 1 with `dots_every`, else 0.
    - `layers` = (M, B) limits the policy to the first M of every B layers, 0 < M < B <= 128, and the others save
      everything; `as traced`, `none` and `recompute` need `ALL_LAYERS`.
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
        """Return whether activations are kept in host memory.

        >>> Remat("offload_dots_no_batch").uses_host, Remat("full").uses_host
        (True, False)
        """
        return self.policy == OFFLOAD_DOTS or bool(self.offloaded)

    @classmethod
    def parse(cls, text: str) -> "Remat":
        """Parse the text form; empty text means `as traced`. Raises `RematError`."""
        written = " ".join(text.replace(",", " ").split()).replace(" + ", "+").replace("+ ", "+").replace(": ", ":")
        words = " ".join(part for part in written.split(" ") if part.partition(":")[0] != _PART)
        layers = _parse_layers([part for part in written.split(" ") if part.partition(":")[0] == _PART])
        if words in ("", *PLAIN):
            return cls(words or "as traced", layers=layers)
        names_by_policy: dict[str, tuple[str, ...]] = {}
        for part in words.split(" "):
            policy, colon, names = part.partition(":")
            if policy not in (*NAMED, EVERY) or policy in names_by_policy:
                raise _unknown_policy(part)
            names_by_policy[policy] = tuple(names.split("+")) if colon and names else ()
        offloaded = names_by_policy.pop("offload", ())
        if EVERY in names_by_policy and "recompute" not in names_by_policy:
            return cls(EVERY, names_by_policy.get("save", ()), offloaded, _whole_number("+".join(names_by_policy[EVERY])), layers)
        if len(names_by_policy) > 1:
            raise RematError(f"Remat `{words}` both saves and recomputes.", ["choose one of the two"])
        kind = next(iter(names_by_policy), "offload")
        return cls(kind, names_by_policy.get(kind, ()), offloaded, layers=layers)

    def __str__(self) -> str:
        parts = [f"{EVERY}:{self.every}"] if self.every else []
        parts += [f"{'save' if self.every else self.policy}:{'+'.join(self.names)}"] if self.names else []
        parts += [f"offload:{'+'.join(self.offloaded)}"] if self.offloaded else []
        parts = parts or [self.policy]
        return " ".join(parts if self.layers == ALL_LAYERS else [*parts, f"{_PART}:{self.layers[0]}/{self.layers[1]}"])


def _whole_number(text: str) -> int:
    """Parse a non-negative integer; 0 if the text is not one."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def _parse_layers(parts: Sequence[str]) -> tuple[int, int]:
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
    return all(type(count) is int for count in layers) and 0 < layers[0] < layers[1] <= _MOST_LAYERS


def _no_part(text: str) -> RematError:
    return RematError(
        f"`{text[:80]}` does not select layers: `{_PART}:M/B` selects the first M of every B layers, with 0 < M < B <= {_MOST_LAYERS}.",
        [f"write `{_PART}:1/2` for every second layer", "leave it out for all layers"],
    )


def _unknown_policy(text: str) -> RematError:
    known = [*PLAIN, f"{EVERY}:N", *(f"{policy}:NAME+..." for policy in NAMED)]
    suggestions = get_close_matches(text, PLAIN, n=1)
    return RematError(
        f"There is no remat policy `{text[:80]}`; there are {', '.join(f'`{policy}`' for policy in known)}.",
        [f"did you mean `{suggestions[0]}`?"] if suggestions else ["use one of these"],
    )


AS_TRACED = Remat()
