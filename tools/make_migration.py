"""Draft a migration of the team's store: `python tools/make_migration.py "what it changes"`.

The draft leads from the migrations so far to `workbench/team/store/tables.py`; read it before you commit it.
"""

import re
import subprocess
import sys

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from workbench.team.store import migrate
from workbench.team.store.store import Store
from workbench.team.store.tables import Base

FILE = '''"""{message}."""

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{down}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this version."""
{upgrade}


def downgrade() -> None:
    """Back to the one before."""
{downgrade}
'''


def render(message: str, revision: str, before: str, connection: Connection) -> str:
    """The text of a migration from the tables of a connection to `tables.py`."""
    context = MigrationContext.configure(connection, opts={"target_metadata": Base.metadata, "render_as_batch": True})
    found = produce_migrations(context, Base.metadata)
    steps = {
        name: _without_remarks(render_python_code(getattr(found, f"{name}_ops"), render_as_batch=True)) for name in ("upgrade", "downgrade")
    }
    return FILE.format(message=message, revision=revision, down=before, **steps)


def _without_remarks(code: str) -> str:
    lines = [line for line in code.splitlines() if not line.lstrip().startswith("#")]
    return "\n".join(line if line.startswith("    ") or not line else f"    {line}" for line in lines)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    store = Store.open("sqlite://")
    migrate.upgrade(store)
    name = re.sub(r"[^a-z0-9]+", "_", sys.argv[1].lower()).strip("_")[:40]
    text = render(sys.argv[1], name, migrate.newest(), store.engine.connect())
    path = migrate.FOLDER / "versions" / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", str(path)], check=True)
    print(path)  # noqa: T201


if __name__ == "__main__":
    main()
