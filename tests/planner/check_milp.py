"""Compares the chain solver with a mixed integer program of the same step, solved by HiGHS.

    check_milp.py PROGRAM [--all] [--seconds S]      PROGRAM: memtune-solve-chains

The program models core/plan/planner/chain_planning_problem.h exactly, with the bytes of the queue instead of times. Every maximum in
simulate() is a lower bound of a variable here, and lower values of these never cost time. So its bound holds for every
choice, and simulate() of its choice gives the value of its objective. Both are checked. Units are GiB and ms.

Identical blocks are not interchangeable, because activations offloaded early have more time for their copies. So no
order between them is added. The remaining symmetry keeps HiGHS from proving the last 0.1 % within the time limit. Then
the solver is compared with the best choice of both, and the gap to the bound is printed.
"""
import argparse
import itertools
import json
import subprocess
import sys
import time

import highspy

GIB = float(1 << 30)
WITHIN = 1e-3


class Milp:
    def __init__(self, chain, seconds):
        self.blocks, self.budget = chain["blocks"], chain["budget"] / GIB
        self.out, self.back = chain["out"] / GIB, chain["in"] / GIB
        self.highs = highspy.Highs()
        for name, value in (("output_flag", False), ("threads", 1), ("time_limit", seconds), ("mip_rel_gap", WITHIN / 10)):
            self.highs.setOptionValue(name, value)
        self.chosen = [[self.highs.addBinary() for _ in block["options"]] for block in self.blocks]
        for row in self.chosen:
            self.highs.addConstr(sum(row) == 1)
        if chain["host"]:
            self.highs.addConstr(sum(self.moved(i) for i in range(len(self.blocks))) <= chain["host"] / GIB)

    def of(self, block, field, scale=1.0):
        return sum(option[field] / scale * y for option, y in zip(self.blocks[block]["options"], self.chosen[block]))

    def moved(self, block):
        return self.of(block, "moved", GIB)

    def variable(self):
        return self.highs.addVariable(lb=0)

    def forward(self):
        """Returns the waits, the resident bytes before each block, and the bytes still in the queue after the last."""
        waits, resident, leaving = 0, [], None
        for i, block in enumerate(self.blocks):
            resident.append(self.variable() if i else None)
            if i:
                before = resident[i - 1] if i > 1 else 0
                self.highs.addConstr(resident[i] == before + self.of(i - 1, "resident", GIB))
            held = self.of(i, "forward_peak", GIB) + (resident[i] if i else 0)
            behind = self.variable()
            self.highs.addConstr(behind >= self.moved(i))
            if i:
                wait, left = self.variable(), self.variable()
                self.highs.addConstr(left >= leaving - self.out * wait)
                self.highs.addConstr(behind >= left - self.out * block["forward"] + self.moved(i))
                held, waits = held + left, waits + wait
            self.highs.addConstr(held <= self.budget)
            leaving = behind
        return waits, resident, leaving

    def backward(self, resident, leaving):
        ms = 0
        for i in reversed(range(len(self.blocks))):
            late, wait, left = self.variable(), self.variable(), self.variable()
            behind = 0
            if i + 1 < len(self.blocks):
                behind = self.blocks[i + 1]["backward"] + self.of(i + 1, "recompute")
            self.highs.addConstr(late + behind >= self.moved(i) * (1 / self.back))
            self.highs.addConstr(left >= leaving - self.out * (late + wait + behind))
            held = left + self.of(i, "backward_peak", GIB)
            if i:
                held = held + resident[i] + self.moved(i - 1)
            self.highs.addConstr(held <= self.budget)
            ms, leaving = ms + late + wait + self.of(i, "recompute"), left
        return ms

    def solve(self):
        """Returns the bound, and the choice and its ms if one was found."""
        own = sum(block["forward"] + block["backward"] for block in self.blocks)
        waits, resident, leaving = self.forward()
        self.highs.minimize(waits + self.backward(resident, leaving) + own)
        info = self.highs.getInfo()
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return info.mip_dual_bound, None, None
        values = self.highs.getSolution().col_value
        choice = [max(range(len(row)), key=lambda k: values[row[k].index]) for row in self.chosen]
        return info.mip_dual_bound, choice, info.objective_function_value


def check(ask, case, seconds):
    """Returns the problems of the solver's answer, and a line about both."""
    answer = ask(case)
    start = time.time()
    bound, choice, ms = Milp(answer["chain"], seconds).solve()
    took = time.time() - start
    if choice is None:
        wrong = [] if answer["choice"] is None or took > seconds else ["HiGHS finds nothing that fits"]
        return wrong, f"{case}: nothing fits" if answer["choice"] is None else f"{case}: HiGHS found nothing in time"
    if answer["choice"] is None:
        return ["the solver found nothing"], str(case)
    simulated = ask({**case, "choice": choice})
    own, wrong = answer["ms"], []
    if not simulated["fits"] or abs(simulated["ms"] / ms - 1) > 1e-5:
        wrong.append(f"the programme's choice takes {ms} by its own account, and simulated {simulated}")
    if own < bound * (1 - 1e-5) or answer["bound"] > simulated["ms"] * (1 + 1e-9):
        wrong.append(f"a bound is broken: {own} < {bound}, or {answer['bound']} > {simulated['ms']}")
    closed = bound > ms * (1 - WITHIN / 2)
    if own > (bound if closed else ms) * (1 + WITHIN):
        wrong.append(f"{own} ms where HiGHS has {ms}, and {bound} as a bound")
    line = (f"{case['blocks']:3} blocks x {case['options']}, jitter {case['jitter']}, {case['share']:4}, host {case['host']:3}: {own:9.3f} ms, "
            f"bound {(1 - answer['bound'] / own) * 100:.3f} % below; HiGHS {(ms / own - 1) * 100:+.4f} %, "
            f"bound {(1 - bound / own) * 100:.4f} % below, {took:.1f} s{'' if closed else ', not closed'}")
    return wrong, line


def cases(everything):
    sizes, ways, jitters = ((32, 64, 96), (6, 8), (0, 0.2, 0.3)) if everything else ((32,), (6,), (0.2, 0.3))
    shares = ((0.12, 0), (0.15, 0), (0.15, 0.3), (0.2, 0), (0.3, 0), (0.3, 0.1), (0.4, 0), (0.6, 0))
    if not everything:
        shares = ((0.15, 0), (0.3, 0.1), (0.4, 0))
    for (seed, blocks), options, jitter, (share, host) in itertools.product(enumerate(sizes), ways, jitters, shares):
        yield dict(seed=seed, blocks=blocks, options=options, jitter=jitter, share=share, host=host)
    for seed in range(40 if everything else 12):  # cases with little in common
        blocks = 12 + seed * 2 if everything else 12
        yield dict(seed=seed, blocks=blocks, options=5, jitter=None, share=(0, 0.02, 0.1, 0.3)[seed % 4],
                   host=0.1 if seed % 3 == 0 else 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seconds", type=float, default=20, help="for HiGHS, a chain")
    arguments = parser.parse_args()
    failed = 0
    with subprocess.Popen([arguments.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        def ask(case):
            program.stdin.write(json.dumps(case) + "\n")
            program.stdin.flush()
            return json.loads(program.stdout.readline())

        for case in cases(arguments.all):
            wrong, line = check(ask, case, arguments.seconds)
            print("\n".join([line, *(f"  WRONG: {one}" for one in wrong)]), flush=True)
            failed += bool(wrong)
        program.stdin.close()
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
