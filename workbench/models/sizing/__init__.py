"""Sizing: what a model needs of a cluster, from its `config.json` or its name."""
