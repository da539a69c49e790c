"""Terms of inference, as fields of `glossary.Term`: name, definition, further reading, the labels it explains."""

BOOK = "https://jax-ml.github.io/scaling-book/inference"
ARXIV = "https://arxiv.org/abs/"

INFERENCE: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "Prefill",
        (
            "The step that reads a prompt: all its tokens at once, each product with batch × tokens rows, so that it mostly waits for "
            "arithmetic. It fills the cache."
        ),
        BOOK,
        ("prefill",),
    ),
    (
        "Decode",
        (
            "The step that writes one token of each sequence: a product has as many rows as the batch and reads all its weights, so that "
            "below a critical batch it waits for memory."
        ),
        BOOK,
        ("decode", "decoding"),
    ),
    (
        "KV cache",
        (
            "The keys and values of all tokens so far, which each step of decoding reads: 2 × layers × heads of keys × numbers a head × "
            "bytes a number for a token, times tokens, times sequences. Its role is model state."
        ),
        f"{ARXIV}2211.05102",
        ("kv cache", "cache", "model state"),
    ),
    (
        "Batch of sequences",
        "How many sequences get a token in a step of decoding. They share one reading of the weights, and each has a cache of its own.",
        BOOK,
        ("sequences", "batch size"),
    ),
    (
        "Time to first token",
        "Seconds from a prompt to the first token of its answer: those of the prefill step, and in a server of waiting before it.",
        f"{ARXIV}2401.09670",
        ("time to first token", "ttft"),
    ),
    (
        "Latency per token",
        "Seconds between two tokens of one sequence: a step of decoding, at least bytes read on a device ÷ bytes a second of its memory.",
        f"{ARXIV}2401.09670",
        ("latency per token", "a token", "time per output token"),
    ),
    (
        "Throughput",
        "Tokens a second of all sequences together: batch ÷ seconds of a step; divided by the chips, what one of them makes.",
        BOOK,
        ("throughput", "tokens/s", "a chip"),
    ),
    (
        "Latency front",
        (
            "The batches and machines of which no other one that fits has both a lower latency per token and a higher throughput a chip "
            "(`plan.latency_front`, `workbench latency`)."
        ),
        f"{ARXIV}2211.05102",
        ("latency front",),
    ),
)
