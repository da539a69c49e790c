"""Pictures of shardings and reports, each with a text equivalent.

    picture = device_grid(plan.report().arguments[0])
    picture          # in a notebook: SVG, which is also shown without a kernel
    picture.figure   # a Bokeh figure, for a page
    picture.save("grid.png")  # or .svg, .txt
    print(picture)   # text

The computation of the data is separate from the drawing. Bokeh is imported by `picture.figure`, not by this package.
"""

from workbench.visualize.argument_shapes import shapes as shapes
from workbench.visualize.charts.front_chart import found_plans as found_plans
from workbench.visualize.charts.front_chart import found_plans_text as found_plans_text
from workbench.visualize.charts.gantt_chart import pipeline as pipeline
from workbench.visualize.charts.memory_chart import memory_over_step as memory_over_step
from workbench.visualize.charts.roofline_chart import roofline as roofline
from workbench.visualize.charts.timeline_chart import timeline as timeline
from workbench.visualize.communication_bars import communication as communication
from workbench.visualize.decode_front_picture import decode_front as decode_front
from workbench.visualize.device_grid import device_grid as device_grid
from workbench.visualize.draw.picture import Picture as Picture
from workbench.visualize.exports.board_picture import board_picture as board_picture
from workbench.visualize.fleet_gantt import fleet as fleet
from workbench.visualize.graph import graph as graph
from workbench.visualize.memory_map import memory as memory
from workbench.visualize.memory_map import memory_map as memory_map
from workbench.visualize.propagation_graph import propagation_graph as propagation_graph
from workbench.visualize.propagation_steps import propagation as propagation
from workbench.visualize.search_front import search_front as search_front
from workbench.visualize.search_front import search_front_text as search_front_text
from workbench.visualize.search_progress import search_progress as search_progress
from workbench.visualize.stage_memory_chart import stage_memory as stage_memory
from workbench.visualize.stage_memory_chart import stage_traffic as stage_traffic
from workbench.visualize.step_time_bars import step_time as step_time
