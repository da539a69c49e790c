"""The components of the page are modules that a browser runs as they are sent."""

import pytest

from workbench.app.page.visitor_screen import BoardComponent, Bridge


@pytest.mark.parametrize("component", [BoardComponent, Bridge], ids=lambda component: component.__name__)
def test_a_module_is_not_translated_in_the_browser(component):
    """Panel's script translates every module from TypeScript but those of a bundle, and keeps a bundle under this name."""
    model = component().get_root()
    assert model.esm == component._esm
    assert model.bundle


def test_each_module_is_kept_under_a_name_of_its_own():
    assert len({component().get_root().bundle for component in (BoardComponent, Bridge)}) == 2
