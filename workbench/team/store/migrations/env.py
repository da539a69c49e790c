"""Alembic's environment script, run on the connection and transaction of `team.store.migrate`."""

from alembic import context

from workbench.team.store.tables import Base


def run() -> None:
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=Base.metadata,
        render_as_batch=True,  # SQLite changes a table by copying it
        transactional_ddl=False,  # the transaction is the caller's
    )
    context.run_migrations()


if __name__ == "env_py":  # alembic's name for this file
    run()
