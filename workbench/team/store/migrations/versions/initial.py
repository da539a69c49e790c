"""The tables as they were first made."""

import sqlalchemy as sa
from alembic import op

revision = "initial"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:  # noqa: PLR0915 - as many as there are tables
    """To this version."""
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=True),
        sa.Column("project_id", sa.String(), nullable=True),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    with op.batch_alter_table("audit", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_audit_created"), ["created"], unique=False)
        batch_op.create_index(batch_op.f("ix_audit_project_id"), ["project_id"], unique=False)

    op.create_table(
        "plan",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("mesh", sa.String(), nullable=False),
        sa.Column("devices", sa.Integer(), nullable=False),
        sa.Column("hardware", sa.String(), nullable=False),
        sa.Column("layout", sa.Text(), nullable=False),
        sa.Column("dims", sa.JSON(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_plan")),
    )
    op.create_table(
        "setting",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_setting")),
    )
    op.create_table(
        "user",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("display", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=True),
        sa.Column("admin", sa.Boolean(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_user")),
        sa.UniqueConstraint("name", name=op.f("uq_user_name")),
    )
    op.create_table(
        "figures",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("tier", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("values", sa.JSON(), nullable=False),
        sa.Column("thumbnail", sa.Text(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["digest"], ["plan.digest"], name=op.f("fk_figures_digest_plan")),
        sa.PrimaryKeyConstraint("digest", "tier", name=op.f("pk_figures")),
    )
    op.create_table(
        "identity",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name=op.f("fk_identity_user_id_user")),
        sa.PrimaryKeyConstraint("issuer", "subject", name=op.f("pk_identity")),
    )
    with op.batch_alter_table("identity", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_identity_user_id"), ["user_id"], unique=False)

    op.create_table(
        "login",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("way", sa.String(), nullable=False),
        sa.Column("agent", sa.String(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.Column("revoked", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name=op.f("fk_login_user_id_user")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_login")),
    )
    with op.batch_alter_table("login", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_login_user_id"), ["user_id"], unique=False)

    op.create_table(
        "password",
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("changed", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name=op.f("fk_password_user_id_user")),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_password")),
    )
    op.create_table(
        "project",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("slug", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("personal_of", sa.String(), nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("archived", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["personal_of"], ["user.id"], name=op.f("fk_project_personal_of_user")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_project")),
        sa.UniqueConstraint("personal_of", name=op.f("uq_project_personal_of")),
        sa.UniqueConstraint("slug", name=op.f("uq_project_slug")),
    )
    op.create_table(
        "token",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=True),
        sa.Column("used", sa.Double(), nullable=True),
        sa.Column("revoked", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name=op.f("fk_token_user_id_user")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token")),
        sa.UniqueConstraint("digest", name=op.f("uq_token_digest")),
    )
    with op.batch_alter_table("token", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_token_user_id"), ["user_id"], unique=False)

    op.create_table(
        "assignment",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("exercise", sa.Text(), nullable=False),
        sa.Column("outline", sa.JSON(), nullable=False),
        sa.Column("first", sa.String(), nullable=False),
        sa.Column("deadline", sa.Double(), nullable=True),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("ranked", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("released", sa.Double(), nullable=True),
        sa.Column("withdrawn", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["by"], ["user.id"], name=op.f("fk_assignment_by_user")),
        sa.ForeignKeyConstraint(["first"], ["plan.digest"], name=op.f("fk_assignment_first_plan")),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_assignment_project_id_project")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assignment")),
    )
    with op.batch_alter_table("assignment", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_assignment_project_id"), ["project_id"], unique=False)

    op.create_table(
        "catalogue",
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("hardware", sa.String(), nullable=False),
        sa.Column("dollars_per_device_hour", sa.Double(), nullable=True),
        sa.Column("engine", sa.String(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_catalogue_project_id_project")),
        sa.PrimaryKeyConstraint("project_id", "name", name=op.f("pk_catalogue")),
    )
    op.create_table(
        "invitation",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=True),
        sa.Column("role", sa.String(), nullable=True),
        sa.Column("admin", sa.Boolean(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=True),
        sa.Column("note", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.Column("used_by", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["by"], ["user.id"], name=op.f("fk_invitation_by_user")),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_invitation_project_id_project")),
        sa.ForeignKeyConstraint(["used_by"], ["user.id"], name=op.f("fk_invitation_used_by_user")),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name=op.f("fk_invitation_user_id_user")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_invitation")),
    )
    with op.batch_alter_table("invitation", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_invitation_used_by"), ["used_by"], unique=False)

    op.create_table(
        "member",
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_member_project_id_project")),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name=op.f("fk_member_user_id_user")),
        sa.PrimaryKeyConstraint("project_id", "user_id", name=op.f("pk_member")),
    )
    with op.batch_alter_table("member", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_member_user_id"), ["user_id"], unique=False)

    op.create_table(
        "program",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("locator", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("approved_by", sa.String(), nullable=True),
        sa.Column("approved", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["approved_by"], ["user.id"], name=op.f("fk_program_approved_by_user")),
        sa.ForeignKeyConstraint(["by"], ["user.id"], name=op.f("fk_program_by_user")),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_program_project_id_project")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_program")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_program_project_id")),
    )
    with op.batch_alter_table("program", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_program_project_id"), ["project_id"], unique=False)

    op.create_table(
        "room",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("program_id", sa.String(), nullable=True),
        sa.Column("first", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("touched", sa.Double(), nullable=False),
        sa.Column("closed", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["by"], ["user.id"], name=op.f("fk_room_by_user")),
        sa.ForeignKeyConstraint(["first"], ["plan.digest"], name=op.f("fk_room_first_plan")),
        sa.ForeignKeyConstraint(["program_id"], ["program.id"], name=op.f("fk_room_program_id_program")),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_room_project_id_project")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_room")),
    )
    with op.batch_alter_table("room", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_room_project_id"), ["project_id"], unique=False)

    op.create_table(
        "comment",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("room_id", sa.String(), nullable=False),
        sa.Column("node", sa.Integer(), nullable=False),
        sa.Column("author_id", sa.String(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("removed", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["author_id"], ["user.id"], name=op.f("fk_comment_author_id_user")),
        sa.ForeignKeyConstraint(["room_id"], ["room.id"], name=op.f("fk_comment_room_id_room")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_comment")),
    )
    with op.batch_alter_table("comment", schema=None) as batch_op:
        batch_op.create_index("ix_comment_node", ["room_id", "node"], unique=False)

    op.create_table(
        "entry",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("author_id", sa.String(), nullable=False),
        sa.Column("room_id", sa.String(), nullable=True),
        sa.Column("forked_from", sa.String(), nullable=True),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("withdrawn", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["author_id"], ["user.id"], name=op.f("fk_entry_author_id_user")),
        sa.ForeignKeyConstraint(["digest"], ["plan.digest"], name=op.f("fk_entry_digest_plan")),
        sa.ForeignKeyConstraint(["forked_from"], ["entry.id"], name=op.f("fk_entry_forked_from_entry")),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_entry_project_id_project")),
        sa.ForeignKeyConstraint(["room_id"], ["room.id"], name=op.f("fk_entry_room_id_room")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_entry")),
    )
    with op.batch_alter_table("entry", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_entry_digest"), ["digest"], unique=False)
        batch_op.create_index(batch_op.f("ix_entry_project_id"), ["project_id"], unique=False)

    op.create_table(
        "job",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("author_id", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("room_id", sa.String(), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("engine", sa.String(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("native", sa.String(), nullable=True),
        sa.Column("summary", sa.JSON(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("started", sa.Double(), nullable=True),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.Column("cancel_asked", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["author_id"], ["user.id"], name=op.f("fk_job_author_id_user")),
        sa.ForeignKeyConstraint(["digest"], ["plan.digest"], name=op.f("fk_job_digest_plan")),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_job_project_id_project")),
        sa.ForeignKeyConstraint(["room_id"], ["room.id"], name=op.f("fk_job_room_id_room")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job")),
    )
    with op.batch_alter_table("job", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_job_author_id"), ["author_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_job_digest"), ["digest"], unique=False)
        batch_op.create_index(batch_op.f("ix_job_project_id"), ["project_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_job_state"), ["state"], unique=False)

    op.create_table(
        "log",
        sa.Column("room_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("author_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["author_id"], ["user.id"], name=op.f("fk_log_author_id_user")),
        sa.ForeignKeyConstraint(["room_id"], ["room.id"], name=op.f("fk_log_room_id_room")),
        sa.PrimaryKeyConstraint("room_id", "seq", name=op.f("pk_log")),
    )
    op.create_table(
        "work",
        sa.Column("room_id", sa.String(), nullable=False),
        sa.Column("assignment_id", sa.String(), nullable=False),
        sa.Column("card", sa.JSON(), nullable=False),
        sa.Column("thumbnail", sa.Text(), nullable=False),
        sa.Column("shown", sa.Double(), nullable=True),
        sa.Column("remark", sa.Text(), nullable=False),
        sa.Column("points", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["assignment_id"], ["assignment.id"], name=op.f("fk_work_assignment_id_assignment")),
        sa.ForeignKeyConstraint(["room_id"], ["room.id"], name=op.f("fk_work_room_id_room")),
        sa.PrimaryKeyConstraint("room_id", name=op.f("pk_work")),
    )
    with op.batch_alter_table("work", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_work_assignment_id"), ["assignment_id"], unique=False)

    op.create_table(
        "answer",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("room_id", sa.String(), nullable=False),
        sa.Column("author_id", sa.String(), nullable=False),
        sa.Column("question", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(), nullable=True),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("most", sa.Double(), nullable=False),
        sa.Column("verdict", sa.JSON(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("late", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["author_id"], ["user.id"], name=op.f("fk_answer_author_id_user")),
        sa.ForeignKeyConstraint(["digest"], ["plan.digest"], name=op.f("fk_answer_digest_plan")),
        sa.ForeignKeyConstraint(["room_id"], ["work.room_id"], name=op.f("fk_answer_room_id_work")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_answer")),
    )
    with op.batch_alter_table("answer", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_answer_room_id"), ["room_id"], unique=False)

    op.create_table(
        "baseline",
        sa.Column("assignment_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("question", sa.String(), nullable=False),
        sa.Column("detail", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=True),
        sa.Column("right", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["assignment_id"], ["assignment.id"], name=op.f("fk_baseline_assignment_id_assignment")),
        sa.ForeignKeyConstraint(["digest"], ["plan.digest"], name=op.f("fk_baseline_digest_plan")),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_baseline_job_id_job")),
        sa.PrimaryKeyConstraint("assignment_id", "name", name=op.f("pk_baseline")),
    )
    with op.batch_alter_table("baseline", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_baseline_job_id"), ["job_id"], unique=False)

    op.create_table(
        "participant",
        sa.Column("assignment_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("room_id", sa.String(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["assignment_id"], ["assignment.id"], name=op.f("fk_participant_assignment_id_assignment")),
        sa.ForeignKeyConstraint(["room_id"], ["work.room_id"], name=op.f("fk_participant_room_id_work")),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name=op.f("fk_participant_user_id_user")),
        sa.PrimaryKeyConstraint("assignment_id", "user_id", name=op.f("pk_participant")),
    )
    with op.batch_alter_table("participant", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_participant_room_id"), ["room_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_participant_user_id"), ["user_id"], unique=False)

    op.create_table(
        "share",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("room_id", sa.String(), nullable=True),
        sa.Column("entry_id", sa.String(), nullable=True),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.Column("revoked", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["by"], ["user.id"], name=op.f("fk_share_by_user")),
        sa.ForeignKeyConstraint(["entry_id"], ["entry.id"], name=op.f("fk_share_entry_id_entry")),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_share_project_id_project")),
        sa.ForeignKeyConstraint(["room_id"], ["room.id"], name=op.f("fk_share_room_id_room")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_share")),
        sa.UniqueConstraint("digest", name=op.f("uq_share_digest")),
    )
    with op.batch_alter_table("share", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_share_project_id"), ["project_id"], unique=False)

    op.create_table(
        "guest",
        sa.Column("share_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["share_id"], ["share.id"], name=op.f("fk_guest_share_id_share")),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name=op.f("fk_guest_user_id_user")),
        sa.PrimaryKeyConstraint("share_id", "user_id", name=op.f("pk_guest")),
    )
    with op.batch_alter_table("guest", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_guest_user_id"), ["user_id"], unique=False)


def downgrade() -> None:  # noqa: PLR0915 - as many as there are tables
    """Back to the one before."""
    with op.batch_alter_table("guest", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_guest_user_id"))

    op.drop_table("guest")
    with op.batch_alter_table("share", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_share_project_id"))

    op.drop_table("share")
    with op.batch_alter_table("participant", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_participant_user_id"))
        batch_op.drop_index(batch_op.f("ix_participant_room_id"))

    op.drop_table("participant")
    with op.batch_alter_table("baseline", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_baseline_job_id"))

    op.drop_table("baseline")
    with op.batch_alter_table("answer", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_answer_room_id"))

    op.drop_table("answer")
    with op.batch_alter_table("work", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_work_assignment_id"))

    op.drop_table("work")
    op.drop_table("log")
    with op.batch_alter_table("job", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_job_state"))
        batch_op.drop_index(batch_op.f("ix_job_project_id"))
        batch_op.drop_index(batch_op.f("ix_job_digest"))
        batch_op.drop_index(batch_op.f("ix_job_author_id"))

    op.drop_table("job")
    with op.batch_alter_table("entry", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_entry_project_id"))
        batch_op.drop_index(batch_op.f("ix_entry_digest"))

    op.drop_table("entry")
    with op.batch_alter_table("comment", schema=None) as batch_op:
        batch_op.drop_index("ix_comment_node")

    op.drop_table("comment")
    with op.batch_alter_table("room", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_room_project_id"))

    op.drop_table("room")
    with op.batch_alter_table("program", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_program_project_id"))

    op.drop_table("program")
    with op.batch_alter_table("member", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_member_user_id"))

    op.drop_table("member")
    with op.batch_alter_table("invitation", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_invitation_used_by"))

    op.drop_table("invitation")
    op.drop_table("catalogue")
    with op.batch_alter_table("assignment", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_assignment_project_id"))

    op.drop_table("assignment")
    with op.batch_alter_table("token", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_token_user_id"))

    op.drop_table("token")
    op.drop_table("project")
    op.drop_table("password")
    with op.batch_alter_table("login", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_login_user_id"))

    op.drop_table("login")
    with op.batch_alter_table("identity", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_identity_user_id"))

    op.drop_table("identity")
    op.drop_table("figures")
    op.drop_table("user")
    op.drop_table("setting")
    op.drop_table("plan")
    with op.batch_alter_table("audit", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_audit_project_id"))
        batch_op.drop_index(batch_op.f("ix_audit_created"))

    op.drop_table("audit")
