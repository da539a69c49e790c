"""The board as static HTML, for where no kernel is: a reopened notebook, GitHub, nbconvert."""

from html import escape
from typing import Any

from workbench.visualize.palette import AXES, NEUTRAL


def snapshot_html(state: dict[str, Any]) -> str:
    """Name, mesh, key figures and what lies on each axis; inline styles only, in colours that hold on light and dark."""
    figures = "".join(_figure(figure) for figure in state["figures"])
    zones = "".join(_zone(zone) for zone in state["zones"])
    head = (
        f"<b>{escape(state['name'])}</b> on <code>{escape(state['mesh'])}</code> ({escape(state['devices'])}){_hardware(state['hardware'])}"
    )
    return (
        f'<div style="font:13px/1.5 system-ui,sans-serif;border:1px solid {NEUTRAL};border-radius:8px;padding:12px;max-width:900px">{head}'
        f'<div style="display:flex;flex-wrap:wrap;gap:24px;margin:8px 0">{figures}</div>{zones}</div>'
    )


def _hardware(state: dict[str, Any]) -> str:
    return f", planned for <b>{escape(state['name'])}</b>" if state["name"] else ""


def _figure(figure: dict[str, Any]) -> str:
    return f'<div><small style="color:{NEUTRAL}">{escape(figure["label"])}</small><br><b>{escape(figure["text"])}</b></div>'


def _zone(zone: dict[str, Any]) -> str:
    colour = NEUTRAL if zone["colour"] is None else AXES[zone["colour"]]
    size = f" ×{escape(zone['size'])}" if zone["size"] else ""
    chips = " · ".join(f"<code>{escape(chip['dim'])} {escape(chip['size'])}</code>" for chip in zone["chips"]) or "nothing"
    title = f"<b>{escape(zone['title'])}{size}</b>"
    return f'<div style="border-left:4px solid {colour};padding-left:8px;margin-top:4px">{title} {chips}</div>'
