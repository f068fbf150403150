"""The command line, `tvm-stitch`; commands of one room are in that room's cli.py."""
