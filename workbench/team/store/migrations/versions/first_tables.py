"""The first tables, frozen: later changes of `tables.py` do not affect them. Their version is `quotas`, as in existing
stores.

A line is a table: `column:type`, then `*` for the primary key, `?` nullable, `#` index, `!` unique, `=0` default,
`>table.column` foreign key. At the end of a line, `!a,b` is a unique constraint, and `#name:a,b` a named index.
"""

import re
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from workbench.team.store.tables import NAMING

revision = "quotas"
down_revision = None
branch_labels = None
depends_on = None

_TABLES = """
audit: id:int* created:float# user_id:str? project_id:str?# action:str subject:str details:json address:str
plan: digest:str* document:text target:str mesh:str devices:int hardware:str layout:text dims:json created:float
setting: key:str* value:json
user: id:str* name:str! display:str email:str? admin:bool active:bool created:float
figures: digest:str*>plan.digest tier:str* version:str values:json thumbnail:text job_id:str? created:float
identity: issuer:str* subject:str* user_id:str#>user.id
login: digest:str* user_id:str#>user.id way:str agent:str created:float expires:float revoked:float?
password: user_id:str*>user.id hash:str changed:float
project: id:str* slug:str! name:str description:text personal_of:str?!>user.id created:float archived:float?
token: id:str* digest:str! user_id:str#>user.id name:str scopes:json created:float expires:float? used:float?
  revoked:float?
assignment: id:str* project_id:str#>project.id name:str exercise:text outline:json first:str>plan.digest
  deadline:float? zone:str size:int ranked:str by:str>user.id created:float released:float? withdrawn:float?
catalogue: project_id:str*>project.id name:str* hardware:str dollars_per_device_hour:float? engine:str options:json
  note:text
invitation: digest:str* project_id:str?>project.id role:str? admin:bool user_id:str?>user.id note:str by:str?>user.id
  created:float expires:float used_by:str?#>user.id
member: project_id:str*>project.id user_id:str*#>user.id role:str since:float
program: id:str* project_id:str#>project.id name:str target:str kind:str locator:str digest:str? size:int=0 state:str
  problem:text by:str#>user.id created:float approved_by:str?>user.id approved:float? !project_id,name
room: id:str* project_id:str#>project.id name:str program_id:str?>program.id first:str>plan.digest by:str#>user.id
  created:float touched:float closed:float?
comment: id:str* room_id:str>room.id node:int author_id:str#>user.id text:text created:float removed:float?
  #ix_comment_node:room_id,node
entry: id:str* project_id:str#>project.id digest:str#>plan.digest name:str note:text author_id:str#>user.id
  room_id:str?>room.id forked_from:str?>entry.id created:float withdrawn:float?
job: id:str* project_id:str#>project.id author_id:str#>user.id digest:str#>plan.digest room_id:str?>room.id kind:str
  engine:str spec:json state:str# native:str? summary:json problem:text created:float started:float? ended:float?
  cancel_asked:float?
log: room_id:str*>room.id seq:int* author_id:str#>user.id kind:str body:json digest:str created:float
work: room_id:str*>room.id assignment_id:str#>assignment.id card:json thumbnail:text shown:float? remark:text
  points:float?
answer: id:str* room_id:str#>work.room_id author_id:str#>user.id question:str attempt:int text:text
  digest:str?>plan.digest score:float most:float verdict:json created:float late:bool
baseline: assignment_id:str*>assignment.id name:str* question:str detail:str digest:str?>plan.digest right:bool
  reason:text job_id:str?#>job.id
participant: assignment_id:str*>assignment.id user_id:str*#>user.id room_id:str#>work.room_id since:float
share: id:str* digest:str! project_id:str#>project.id room_id:str?>room.id entry_id:str?>entry.id role:str
  by:str>user.id created:float expires:float revoked:float?
guest: share_id:str*>share.id user_id:str*#>user.id since:float
"""
_TYPES = {"str": sa.String, "text": sa.Text, "float": sa.Double, "int": sa.Integer, "bool": sa.Boolean, "json": sa.JSON}
_COLUMN = re.compile(r"(\w+):(\w+)([*?#!]*)(?:=(\w+))?(?:>(\w+\.\w+))?")


def upgrade() -> None:
    _first_tables().create_all(op.get_bind(), checkfirst=False)


def downgrade() -> None:
    _first_tables().drop_all(op.get_bind(), checkfirst=False)


def _first_tables() -> sa.MetaData:
    metadata = sa.MetaData(naming_convention=NAMING)
    for line in _TABLES.replace("\n  ", " ").strip().splitlines():
        name, _, columns = line.partition(": ")
        sa.Table(name, metadata, *map(_part, columns.split()))
    return metadata


def _part(text: str) -> sa.schema.SchemaItem:
    if text.startswith("!"):
        return sa.UniqueConstraint(*text[1:].split(","))
    if text.startswith("#"):
        name, _, columns = text[1:].partition(":")
        return sa.Index(name, *columns.split(","))
    match = _COLUMN.fullmatch(text)
    assert match is not None, text
    name, kind, marks, default, target = match.groups()
    keys = {"primary_key": "*" in marks, "index": "#" in marks or None, "unique": "!" in marks or None}
    flags: dict[str, Any] = {**keys, "nullable": "?" in marks, "server_default": default}
    return sa.Column(name, _TYPES[kind], *_foreign_key(target), **flags)


def _foreign_key(target: str | None) -> Iterator[sa.ForeignKey]:
    if target:
        yield sa.ForeignKey(target)
