"""Saved Relay modules (TVM 0.7 to 0.19) on today's TVM.

In: what ``tvm.ir.save_json``, Relay's text format and ``relay.save_param_dict`` wrote. Out: Relax.
Nothing of Relay needs to be installed, and nothing in a file is executed.
"""

from tvm_stitch.frontend.relay.graph_module import GraphModule
from tvm_stitch.frontend.relay.load import build, is_relay, load
from tvm_stitch.frontend.relay.ops import OPERATORS, REFUSED

__all__ = ["OPERATORS", "REFUSED", "GraphModule", "build", "is_relay", "load"]
