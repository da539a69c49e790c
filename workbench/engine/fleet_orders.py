"""What a training fleet is told meanwhile, and what it tells."""

from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from workbench.engine.fleet_floor import Listener
from workbench.engine.parcel import unpack_model
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.engine.fleet import FleetRun

Orders = SimpleQueue[dict[str, Any]]


class Stage:
    """Hears of everything, and knows at which stage it was: it outlives the failure that it explains."""

    def __init__(self, tell: Listener) -> None:
        self.tell, self.name = tell, "starting"

    def __call__(self, event: dict[str, Any]) -> None:
        self.name = event.get("stage", self.name)
        self.tell(event)


def obey(run: "FleetRun", orders: Orders, tell: Listener) -> None:
    """Each order as it comes, to the end of the process."""
    while True:
        order = orders.get()
        told = {key: value for key, value in order.items() if key != "parcel"}
        try:
            if order.get("order") == "add":
                run.add(unpack_model(order["parcel"]))
            else:
                run.floor.obey(order)
        except WorkbenchError as error:
            tell({"event": "refused", **told, "message": str(error)})
        else:
            tell({"event": "obeyed", **told, **(run.floor.standing(order["model"]) if order["order"] in ("add", "stop") else {})})
