"""Pooling as stages that one kernel holds, where TVM's own legalisation takes several."""
