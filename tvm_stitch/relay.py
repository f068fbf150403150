"""Relay's place in this package: ``load`` what it saved, ``build`` as its build did."""

from tvm_stitch.frontend.relay import GraphModule, build, load

__all__ = ["GraphModule", "build", "load"]
