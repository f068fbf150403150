"""A graph in parts that can be planned one by one."""
