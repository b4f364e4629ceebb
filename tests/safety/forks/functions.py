#!/usr/bin/env python3
"""Generates rows for children.c, one for every function that the public headers declare: reads gcc's list of prototypes (-aux-info) from stdin and
prints FUNCTION(name, call, is_error). The call has arguments of the right types; is_error(r) tells, depending on the result's type, whether the
result is the error that a forked child must get."""
import re
import sys

# Functions that only put their arguments together, or say what does not change any more: no error, and nothing to wait for.
PURE = """mf_same mf_range mf_axis_part_axis mf_axis_part_states mf_node_double mf_node_int mf_node_module mf_node_name mf_node_state
mf_node_function mf_node_value
mf_str_dtype mf_process_count mf_loader_batches mf_device_count mf_local_device_count mf_devices mf_local_devices mf_devices_of
mf_device_slice mf_device_id mf_device_local_ordinal mf_device_process mf_device_platform mf_nothing_saveable mf_everything_saveable mf_dots_saveable
mf_dots_with_no_batch_dims_saveable""".split()

ARGUMENTS = {"mf_value": "value", "mf_function": "function", "mf_state": "state", "mf_module": "module", "mf_filter": "filter",
             "mf_optimizer": "optimizer", "mf_device": "device", "mf_device_list": "devices", "const char *": '"a"',
             "mf_shape": "MF_SHAPE(2)", "mf_dtype": "MF_F32", "mf_status": "MF_ERROR_IO", "mf_loader *": "loader", "const mf_loader *": "loader",
             "mf_checkpoint_manager *": "manager", "mf_source *": "NULL", "mf_progress *": "NULL", "mf_logbook *": "logbook", "const mf_source *": "NULL", "mf_source_read": "NULL",
             "mf_source_end": "NULL",
             "const mf_value *": "values", "const mf_function *": "functions", "const mf_filter *": "filters", "const char *const *": "names",
             "mf_value *": "made", "mf_function *": "pullback", "mf_scope *": "NULL", "mf_scope **": "&(mf_scope *){ NULL }",
             "const mf_layer *": "&(mf_layer){ 0 }", "mf_value *const *": "places", "mf_error_hook": "NULL", "mf_print_hook": "NULL", "size_t": "sizeof *values"}
RESULTS = {"mf_value": "said(r)", "mf_status": "r != MF_OK", "const char *": "!r || strstr(r, \"child of a fork\")", "const void *": "!r",
           "double": "isnan(r)", "_Bool": "!r", "int": "r <= 0", "int64_t": "r <= 0", "mf_axis": "r == INT64_MAX", "mf_device_list": "!r.count",
           "mf_shape": "r.rank <= 0", "mf_scope *": "!r", "mf_loader *": "1", "mf_checkpoint_manager *": "1", "mf_source *": "1", "mf_progress *": "1", "mf_logbook *": "1", "mf_optimizer": "!r.handle", "mf_policy": "!r.saves",
           "mf_dtype": "r == MF_DTYPE_DEFAULT", "mf_kind": "r == MF_KIND_ERROR"}
HANDLES = "mf_function mf_state mf_module mf_filter mf_state_axis_rules".split()
OWN = {"mf_is_error": "r", "mf_exit_status": "r == EXIT_FAILURE", "mf_first_error": "r != MF_OK",
       "mf_unpack_n": "said(made[0])", "mf_record_unpack_": "said(made[0])", "mf_loader_next": "!r || said(made[0])",
       "mf_vjp_opt": "said(r) && said((mf_value){ pullback->handle })", "mf_linearize_opt": "said(r) && said((mf_value){ pullback->handle })"}


def argument(parameter):
    if parameter in ARGUMENTS:
        return ARGUMENTS[parameter]
    if parameter.endswith("*"):
        return "(void *)room"
    if re.fullmatch(r"mf_f[a-z]?\d+|mf_fm|mf_init_fn|mf_decorator", parameter):
        return f"({parameter})any"
    if re.fullmatch(r"mf_(initializer|ints|slice|policy|state_axis_rules|stage_form|state_type)", parameter):
        return f"({parameter}){{ 0 }}"
    return "1"


def row(name, result, parameters):
    call = f"({name})({', '.join(argument(p) for p in parameters if p not in ('void', '...'))})"
    if result == "void":
        return f"FUNCTION({name}, int r = ({call}, 0), {OWN.get(name, 'r == 0')})"
    error = OWN.get(name, "said((mf_value){ r.handle })" if result in HANDLES else RESULTS.get(result, "1"))
    space = "" if result.endswith("*") else " "
    return f"FUNCTION({name}, {result}{space}r = {call}, {'1' if name in PURE else error})"


def split(parameters):
    parts, depth = [""], 0
    for c in parameters:
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


for line in sys.stdin:
    m = re.match(r"/\* \S*include/manyfold/\S* \*/ extern (.*?)\(?\b(mf_\w+)\)? \((.*)\);", line)
    if m and m[2] != "mf_no_value_":
        print(row(m[2], m[1].strip(), split(m[3])))
