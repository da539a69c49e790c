"""A link that somebody shared: to a room, which it opens for whoever is signed in, or to a plan, which anybody may read."""

from workbench.team.actions.action import Inputs
from workbench.team.actions.perform import Context, perform
from workbench.team.pages.page_handler import action_named
from workbench.team.pages.plan_cards import FIGURE_KINDS, PlanCard
from workbench.team.web.base_handler import TeamHandler


class SharePage(TeamHandler):
    """See the module. Whoever is not signed in and has a link to a room is sent to do so."""

    async def get(self, secret: str) -> None:
        found = await perform(
            action_named("shares.open"),
            Context(self.server, self.principal, self.request.remote_ip or ""),
            Inputs({}, {}, {"secret": secret}),
        )
        if found["kind"] == "room":
            self.redirect_to(f"/room/{found['room']['id']}")
            return
        card = PlanCard.of(found["plan"])
        self.write_page("shared_plan.html", title=card.name, plan=card, kinds=FIGURE_KINDS, document=found["document"], said=None, foot=[])
