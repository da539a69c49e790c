"""Changes of the tables, in order, as alembic carries them out: data of the package."""
