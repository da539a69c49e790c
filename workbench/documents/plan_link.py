"""A plan as text for a URL and back: the plan document, minified, compressed, and base64url-encoded.

Following a link is a smaller decision than opening a file, and links are untrusted. A link may therefore only name
models of the zoo or the program that is open already, so that no module is imported.
"""

import base64
import binascii
import json
import zlib

from workbench.documents.plan_documents import dump_plan, parse_plan
from workbench.errors import DocumentError
from workbench.plan.plan import Plan

MARK = "p1."
"""Prefix of every link text, with the format version."""
MOST_TEXT = 16_000  # characters; servers refuse longer URLs
MOST_DOCUMENT = 1 << 20  # bytes

_WAYS_OUT = ("ask for the link again: it may be truncated", "ask for the plan as a file")


def link_text(plan: Plan) -> str:
    """Text for `?plan=`. Raises `DocumentError` if the plan cannot be saved or is too long for a URL.

    >>> from workbench.documents.program_references import program_from_reference
    >>> from workbench.core.program import Reference
    >>> plan = Plan(program_from_reference(Reference("two_layer", {"batch": 16})), "data:4", "batch:data")
    >>> parse_link(link_text(plan)) == plan
    True
    """
    document = json.dumps(json.loads(dump_plan(plan)), ensure_ascii=False, separators=(",", ":"))
    packed = base64.urlsafe_b64encode(zlib.compress(document.encode(), 9)).decode().rstrip("=")
    if len(MARK) + len(packed) > MOST_TEXT:
        raise DocumentError(
            f"A link to `{plan.name}` would have {len(MARK) + len(packed):,} characters; the limit is {MOST_TEXT:,}.",
            ["save the plan and send the file"],
        )
    return MARK + packed


def parse_link(text: str, known: Plan | None = None) -> Plan:
    """The plan of a link; `known` is a plan whose program it may name besides the zoo.

    Raises `DocumentError` if the text is not a link, is truncated or too long, or names another program; other errors
    are those of `parse_plan`.
    """
    document = _unpack_link(text)
    target = _read_target(document)
    known_target = known.program.reference.target if known is not None and known.program.reference is not None else ""
    if ":" in target and target != known_target:
        raise DocumentError(
            f"The link is to a plan of `{target}`; a link may only name models of the zoo or the current program.",
            ["ask for the plan as a file", f"start the workbench on {target}, and open the link there"],
        )
    return parse_plan(document, "The link", known_target if ":" in known_target else ())


def _unpack_link(text: str) -> str:
    text = text.strip()
    if not text.startswith(MARK):
        raise DocumentError("The link has no plan that this workbench can read.", _WAYS_OUT)
    if len(text) > MOST_TEXT:
        raise DocumentError(f"The link has {len(text):,} characters; a plan has at most {MOST_TEXT:,}.", _WAYS_OUT)
    packed = text.removeprefix(MARK)
    try:
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(base64.b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True), MOST_DOCUMENT)
        if not unpacker.eof:  # truncated, or a decompression bomb
            raise DocumentError("The link is truncated or has extra data.", _WAYS_OUT)
        return raw.decode()
    except (binascii.Error, zlib.error, ValueError):
        raise DocumentError("The link is damaged: it cannot be decompressed.", _WAYS_OUT) from None


def _read_target(document: str) -> str:
    """The program that a document names, before anything is built; `parse_plan` reports errors in the document."""
    try:
        return str(json.loads(document)["program"]["target"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
