"""The operators, by families: how chance makes a call of each, and what it means in NumPy.

Each file has `MEANINGS`, from an operator's name to a function of Numbers, and `RULES`, functions
that let a Writer add calls, with weights. Two tables, no class for each operator.
"""
