"""Many models trained at once on shared devices, as shard units (Hydra)."""
