"""What a plan may cost at least: all sets of kernels, tried one by one."""

from tvm_stitch.plan.problem import feasible, in_order


def brute_force(problem):
    """The least cost over all sets of choices that obey the rules and have an order."""
    best = float("inf")
    for mask in range(1 << len(problem.choices)):
        chosen = [number for number in range(len(problem.choices)) if mask >> number & 1]
        if problem.cost(chosen) >= best or not feasible(problem, chosen):
            continue
        if in_order(problem, chosen) is not None:
            best = problem.cost(chosen)
    return best
