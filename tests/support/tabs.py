"""The sections of the board, as a test opens them."""

from playwright.sync_api import Locator, Page, expect

from workbench.widgets.tabs.board_tabs import SECTIONS, section_of


def view_tab(page: Page, tab: str) -> Locator:
    """The tab of the view that a section is in."""
    return page.locator(f'.tab[data-view="{section_of(tab).view}"]')


def open_tab(page: Page, tab: str) -> Locator:
    """The tables of the section `tab`, drawn: its view is opened, then the section, where there are several."""
    if tab == "find":
        page.locator("[data-verb=open-find]").click()
    else:
        view_tab(page, tab).click()
        expect(view_tab(page, tab)).to_have_attribute("aria-selected", "true")
        if sum(each.view == section_of(tab).view for each in SECTIONS) > 1:
            page.locator(f'.tab[data-tab="{tab}"]').click()
    tables = page.locator(f'.tables[data-tab="{tab}"]')
    tables.wait_for()
    return tables
