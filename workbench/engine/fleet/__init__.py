"""Train many models at once on shared devices, as shard units (Hydra)."""
