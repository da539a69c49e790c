"""The history of a board, written to disk as it grows."""

from workbench.session.journal.journal import Journal as Journal
from workbench.session.journal.journal import RestoredJournal as RestoredJournal
from workbench.session.journal.journal import ResumedJournal as ResumedJournal
from workbench.session.journal.journal import restore_session as restore_session
from workbench.session.journal.journal_folder import JournalEntry as JournalEntry
from workbench.session.journal.journal_folder import find_journal as find_journal
from workbench.session.journal.journal_folder import is_board_id as is_board_id
from workbench.session.journal.journal_folder import journal_folder as journal_folder
from workbench.session.journal.journal_folder import list_journals as list_journals
from workbench.session.journal.journal_folder import new_board_id as new_board_id
from workbench.session.journal.journal_folder import prune_journals as prune_journals
