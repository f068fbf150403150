"""What the process of every case starts with; the fork server imports it once.

So a case costs a fork, not the seconds that importing TVM and making ONNX's data take.
"""

import highspy
import pulp

from tests.outside.onnx import cases, judge, processes

__all__ = ["cases", "highspy", "judge", "processes", "pulp"]

cases.suite()
