"""Runners for boards: worker processes of the engine, and a queue shared by many boards."""
