"""Nothing that a document, an explanation or a cut cable can do takes the workbench down: how often it was tried, and what broke.

    python benchmarks/soundness.py [--quick] [--json] [--seed N]

- `documents`: plan documents, links, fleet files and gestures, legal and hostile; `imports`, `crashes`, `hangs` (over 5 s of the processor)
  and `over_1gib` of them;
- `explanations` of random plans; `deaths` of the process that asked, `worker_deaths` that were answered by a message;
- `reconnects`: `cuts` of a visitor's connection and `restarts` of the server, and how many boards were not as they had been (`lost`).

The goals: 10,000 documents, 20,000 explanations, 100 cuts and 20 restarts, and 0 of everything that breaks. Each part is a benchmark of its
own too.
"""

import argparse
import json
import random
from typing import Any

from soundness_documents import documents
from soundness_explanations import explanations
from soundness_reconnects import reconnects

WHOLE = {"documents": 10_000, "explanations": 20_000, "cuts": 100, "restarts": 20}
QUICK = {"documents": 300, "explanations": 500, "cuts": 10, "restarts": 2}
BROKEN = ("imports", "crashes", "hangs", "over_1gib", "deaths", "lost")


def soundness(counts: dict[str, int], seed: int) -> dict[str, Any]:
    """All parts, with one seed."""
    read = documents(counts["documents"], seed)
    explained = explanations(counts["explanations"], seed)
    cut = reconnects(counts["cuts"], counts["restarts"], seed)
    kept = ("documents", "legal", "imports", "crashes", "hangs", "over_1gib", "slowest_s")
    return {
        **{name: read[name] for name in kept},
        **{name: explained[name] for name in ("explanations", "deaths", "worker_deaths")},
        "reconnects": cut["cuts"] + cut["restarts"],
        **{name: cut[name] for name in ("cuts", "restarts", "lost")},
        "seed": seed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="some minutes instead of hours")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="another in each run")
    options = parser.parse_args()
    found = soundness(QUICK if options.quick else WHOLE, options.seed)
    print(json.dumps(found) if options.json else "\n".join(f"{name:16}{value:>14}" for name, value in found.items()))
    if any(found[name] for name in BROKEN):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
