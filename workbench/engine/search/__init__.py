"""Who answers a search: worker processes of this machine, or actors of a Ray cluster; and its best plans compiled."""

from workbench.engine.search.choose_answerer import open_answerer as open_answerer
from workbench.engine.search.verify_plans import VerifiedPlan as VerifiedPlan
from workbench.engine.search.verify_plans import verify_plans as verify_plans
