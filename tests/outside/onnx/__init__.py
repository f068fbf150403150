"""ONNX's own backend suite, stitched: `python -m tests.outside.onnx --help`."""
