"""What quotas count: the bytes of a program's files, and indexes by author."""

import sqlalchemy as sa
from alembic import op

revision = "quotas"
down_revision = "initial"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this version."""
    with op.batch_alter_table("answer", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_answer_author_id"), ["author_id"], unique=False)

    with op.batch_alter_table("comment", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_comment_author_id"), ["author_id"], unique=False)

    with op.batch_alter_table("entry", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_entry_author_id"), ["author_id"], unique=False)

    with op.batch_alter_table("log", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_log_author_id"), ["author_id"], unique=False)

    op.add_column("program", sa.Column("size", sa.Integer(), nullable=False, server_default="0"))
    with op.batch_alter_table("program", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_program_by"), ["by"], unique=False)

    with op.batch_alter_table("room", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_room_by"), ["by"], unique=False)


def downgrade() -> None:
    """Back to the one before."""
    with op.batch_alter_table("room", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_room_by"))

    with op.batch_alter_table("program", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_program_by"))
    op.drop_column("program", "size")  # not in a batch, for which SQLite would make the table anew, and others refer to it

    with op.batch_alter_table("log", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_log_author_id"))

    with op.batch_alter_table("entry", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_entry_author_id"))

    with op.batch_alter_table("comment", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_comment_author_id"))

    with op.batch_alter_table("answer", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_answer_author_id"))
