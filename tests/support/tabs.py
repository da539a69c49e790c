"""The tabs of the board, as a test opens them."""

from playwright.sync_api import Locator, Page


def open_tab(page: Page, tab: str) -> Locator:
    """The tables of the tab `tab`, drawn."""
    page.locator(f'.tab[data-tab="{tab}"]').click()
    tables = page.locator(f'.tables[data-tab="{tab}"]')
    tables.wait_for()
    return tables
