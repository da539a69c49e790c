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
Megatron-LM's selective recomputation (Korthikanti et al. 2022) is `recompute:` with the scopes of the attention's core; torchtitan's
selective activation checkpointing of single operations is `dots_every:2`.
"""

from dataclasses import dataclass
from difflib import get_close_matches

from workbench.errors import RematError

OFFLOAD_DOTS = "offload_dots_no_batch"
PLAIN = ("as traced", "none", "full", "dots", "dots_no_batch", OFFLOAD_DOTS)
NAMED = ("save", "offload", "recompute")
EVERY = "dots_every"
_MOST_DIGITS = 6
_FORBIDDEN = frozenset(" +:,;")  # what separates names in text


@dataclass(frozen=True, slots=True)
class Remat:
    """A rematerialisation policy, and the names it applies to.

    >>> print(Remat.parse("save:attention_out + mlp_hidden  offload:query_key_value"))
    save:attention_out+mlp_hidden offload:query_key_value

    **Invariants**

    - A plain policy has no names; `save`, `offload` and `recompute` have at least one each.
    - `dots_every`, `save` and `offload` may stand together, each once and without a name in common; nothing else may.
    - `offloaded` are the names of `offload`, `names` those of `save` or `recompute`.
    - `every` is a whole number from 1 with `dots_every`, else 0.
    """

    policy: str = "as traced"
    names: tuple[str, ...] = ()
    offloaded: tuple[str, ...] = ()
    every: int = 0

    def __post_init__(self) -> None:
        if self.policy not in (*PLAIN, *NAMED, EVERY):
            raise _unknown_policy(self.policy)
        if type(self.every) is not int or (self.every < 1 if self.policy == EVERY else self.every):
            raise RematError(
                f"Remat `{EVERY}` takes a whole number from 1, and no other policy takes one.",
                [f"write `{EVERY}:2` to keep every other dot"],
            )
        if self.policy in PLAIN and (self.names or self.offloaded):
            raise RematError(f"Remat `{self.policy}` takes no names.", ["name values with `save:NAME+...`"])
        if self.offloaded and self.policy not in ("save", "offload", EVERY):
            raise RematError(f"Remat `{self.policy}` cannot be combined with `offload`.", ["combine `offload` with `save`"])
        if self.policy in NAMED and not (self.offloaded if self.policy == "offload" else self.names):
            raise RematError(f"Remat `{self.policy}:` names nothing.", [f"write `{self.policy}:NAME`, several joined by `+`"])
        for name in {name for name in self.names if name in self.offloaded}:
            raise RematError(f"`{name}` cannot be kept on the device and offloaded too.", ["name it once"])
        for name in (*self.names, *self.offloaded):
            if not name or _FORBIDDEN & set(name):
                raise RematError(f"`{name[:80]}` cannot stand in a remat text.", ["use names without spaces, `+`, `:`, `,` and `;`"])

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
        words = " ".join(text.replace(",", " ").split())
        if words in ("", *PLAIN):
            return cls(words or "as traced")
        found: dict[str, tuple[str, ...]] = {}
        for part in words.replace(" + ", "+").replace("+ ", "+").replace(": ", ":").split(" "):
            policy, colon, names = part.partition(":")
            if policy not in (*NAMED, EVERY) or policy in found:
                raise _unknown_policy(part)
            found[policy] = tuple(names.split("+")) if colon and names else ()
        offloaded = found.pop("offload", ())
        if EVERY in found and "recompute" not in found:
            return cls(EVERY, found.get("save", ()), offloaded, _whole_number("+".join(found[EVERY])))
        if len(found) > 1:
            raise RematError(f"Remat `{words}` both saves and recomputes.", ["choose one of the two"])
        kind = next(iter(found), "offload")
        return cls(kind, found.get(kind, ()), offloaded)

    def __str__(self) -> str:
        parts = [f"{EVERY}:{self.every}"] if self.every else []
        parts += [f"{'save' if self.every else self.policy}:{'+'.join(self.names)}"] if self.names else []
        parts += [f"offload:{'+'.join(self.offloaded)}"] if self.offloaded else []
        return " ".join(parts) or self.policy


AS_TRACED = Remat()


def _whole_number(text: str) -> int:
    """The number that a text is, 0 for another."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else 0


def _unknown_policy(text: str) -> RematError:
    known = [*PLAIN, f"{EVERY}:N", *(f"{policy}:NAME+..." for policy in NAMED)]
    close = get_close_matches(text, PLAIN, n=1)
    return RematError(
        f"There is no remat policy `{text[:80]}`; there are {', '.join(f'`{each}`' for each in known)}.",
        [f"did you mean `{close[0]}`?"] if close else ["use one of these"],
    )
