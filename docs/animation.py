"""The animated picture of the README, docs/drag.gif: two dimensions are dragged onto a mesh axis, and the figures change. Run by hand:
`python docs/animation.py`. It needs Chromium, as the tests do, and takes about half a minute."""

import os
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from PIL import Image, ImageDraw
from playwright.sync_api import Locator, Page, sync_playwright

from tests.install_browsers import system_chromium
from tests.support.servers import free_port, wait_for
from workbench.app.page.serve import serve
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan

TARGET = ROOT / "docs" / "drag.gif"
WIDTH, HEIGHT, SHOWN = 1200, 640, 900  # pixels of the page, and of the picture's width
COLOURS, MOST_BYTES = 96, 2_000_000
POINTER = [(0, 0), (0, 17), (4, 13), (7, 20), (10, 19), (7, 12), (12, 12)]

Frame = tuple[Image.Image, int]  # and for how many milliseconds it is shown


def plan() -> Plan:
    """GPT-2 on sixteen TPUs, data parallel so far. It fits before and after."""
    program = build("gpt", preset="gpt2-small", scan=True, batch=32)
    return Plan(program, "data:8 model:2", "batch:data", hardware=parse_hardware("TPU v5e 4x4"))


def centre(shown: Locator) -> tuple[float, float]:
    box = shown.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def frame(page: Page, at: tuple[float, float], milliseconds: int) -> Frame:
    """The page now, with the pointer, which a screenshot leaves out."""
    image = Image.open(BytesIO(page.screenshot())).convert("RGB")
    points = [(at[0] + x, at[1] + y) for x, y in POINTER]
    ImageDraw.Draw(image).polygon(points, fill="black", outline="white")
    return image.resize((SHOWN, round(SHOWN * HEIGHT / WIDTH)), Image.Resampling.LANCZOS), milliseconds


def answered(page: Page) -> None:
    """Wait for XLA's partitioner."""
    page.get_by_text("asking XLA").wait_for(state="detached", timeout=120_000)
    page.wait_for_timeout(500)


def drag(page: Page, dim: str, axis: str, start: tuple[float, float]) -> Iterator[Frame]:
    """The frames of one drag, from where the pointer was to the figures of XLA's partitioner."""
    grip, zone = centre(page.locator(f'.zone .grip[data-dim="{dim}"]').first), centre(page.locator(f'.zone[data-axis="{axis}"]').first)
    page.mouse.move(*grip, steps=3)
    yield frame(page, start, 300)
    yield frame(page, grip, 500)
    page.mouse.down()
    for part in (0.25, 0.5, 0.75, 1.0):
        at = (grip[0] + part * (zone[0] - grip[0]), grip[1] + part * (zone[1] - grip[1]))
        page.mouse.move(*at, steps=4)
        page.wait_for_timeout(60)
        yield frame(page, at, 120 if part < 1 else 700)
    page.mouse.up()
    page.locator(".wb[data-busy=false]").wait_for()
    page.wait_for_timeout(300)
    yield frame(page, zone, 900)
    answered(page)
    yield frame(page, zone, 2200)


def record(page: Page) -> list[Frame]:
    """The frames of the whole picture."""
    page.locator(".wb .card").wait_for(timeout=60_000)
    answered(page)
    start = (WIDTH * 0.6, HEIGHT * 0.55)
    frames = [frame(page, start, 1200)]
    for dim in ("d_ff", "heads"):
        zone = centre(page.locator('.zone[data-axis="model"]').first)
        frames += drag(page, dim, "model", start)
        start = zone
    return frames


def save(frames: list[Frame]) -> None:
    """Write the frames with one palette, each as what changed."""
    palette = frames[-1][0].quantize(COLOURS, dither=Image.Dither.NONE)
    first, *others = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image, _ in frames]
    first.save(TARGET, save_all=True, append_images=others, duration=[shown for _, shown in frames], loop=0, optimize=True)
    size = TARGET.stat().st_size
    print(f"{TARGET.relative_to(ROOT)}: {len(frames)} frames, {size / 1e6:.2f} MB{', too much' * (size > MOST_BYTES)}")


def main() -> None:
    port = free_port()
    running = serve(plan(), port=port, open_browser=False, threaded=True)
    wait_for(f"http://127.0.0.1:{port}/liveness")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=system_chromium(), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", reduced_motion="reduce")
        page.goto(f"http://127.0.0.1:{port}/")
        save(record(page))
        browser.close()
    running.stop()


if __name__ == "__main__":
    main()
