"""Plans as files: a JSON document without code, and a JAX script that runs without the workbench.

save_plan(plan, "gpt.plan.json")
plan = load_plan("gpt.plan.json")
print(export_script(plan))
"""

from workbench.documents.edit_records import edit_record as edit_record
from workbench.documents.edit_records import parse_edit as parse_edit
from workbench.documents.export_formats import ALL_EXPORTS as ALL_EXPORTS
from workbench.documents.fleet_files import load_fleet as load_fleet
from workbench.documents.fleet_files import parse_fleet as parse_fleet
from workbench.documents.fleet_files import resolve_fleet as resolve_fleet
from workbench.documents.jax_script import export_script as export_script
from workbench.documents.json_records import comparison_record as comparison_record
from workbench.documents.json_records import compiled_record as compiled_record
from workbench.documents.json_records import conflict_record as conflict_record
from workbench.documents.json_records import explanation_record as explanation_record
from workbench.documents.json_records import fleet_record as fleet_record
from workbench.documents.json_records import measurement_record as measurement_record
from workbench.documents.json_records import plan_diff_record as plan_diff_record
from workbench.documents.json_records import report_record as report_record
from workbench.documents.json_records import simulation_record as simulation_record
from workbench.documents.plan_documents import dump_plan as dump_plan
from workbench.documents.plan_documents import load_plan as load_plan
from workbench.documents.plan_documents import parse_plan as parse_plan
from workbench.documents.plan_documents import save_plan as save_plan
from workbench.documents.plan_link import link_text as link_text
from workbench.documents.plan_link import parse_link as parse_link
from workbench.documents.program_references import program_from_reference as program_from_reference
from workbench.hardware.catalogue_entry import hardware_entry as hardware_entry
