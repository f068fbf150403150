"""What the process of every case starts with; the fork server imports it once.

So a case costs a fork, and neither the seconds that importing TVM and making ONNX's data take, nor
what TVM and this package do only the first time.
"""

import gc

from tests.outside.onnx import cases, judge, processes

__all__ = ["cases", "judge", "processes"]

judge.judge(cases.load("test_softmax_axis_2"))
gc.freeze()  # the garbage collector would touch, and so copy, all that the processes share
