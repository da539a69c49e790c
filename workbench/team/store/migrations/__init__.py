"""Alembic migrations of the tables, in order; package data."""
