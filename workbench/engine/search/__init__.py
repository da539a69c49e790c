"""Who answers a search: worker processes of this machine, or actors of a Ray cluster."""

from workbench.engine.search.choose_answerer import open_answerer as open_answerer
