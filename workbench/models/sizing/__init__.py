"""Cluster sizing: resources that a model needs, from its `config.json` or its name."""
