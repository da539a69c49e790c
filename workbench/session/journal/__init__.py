"""The history of a board, kept on disk as it grows."""

from workbench.session.journal.folder import JournalEntry as JournalEntry
from workbench.session.journal.folder import find_journal as find_journal
from workbench.session.journal.folder import is_board_id as is_board_id
from workbench.session.journal.folder import journal_folder as journal_folder
from workbench.session.journal.folder import list_journals as list_journals
from workbench.session.journal.folder import new_board_id as new_board_id
from workbench.session.journal.folder import prune as prune
from workbench.session.journal.journal import Journal as Journal
from workbench.session.journal.journal import Restored as Restored
from workbench.session.journal.journal import Resumed as Resumed
from workbench.session.journal.journal import restore as restore
