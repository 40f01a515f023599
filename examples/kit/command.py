"""The command line: of a lab that needs a card."""

import argparse

from kit.card import gpu_problem, stop
from kit.proof import company, warned
from kit.table import report


def command(argv, doc, check, checked, measure, header, line, values, footer, predicted_table=None):
    """Check, say what was checked, print the table. Returns the exit status: 2 and one line on stderr where it cannot run."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    if predicted_table:
        parser.add_argument("--predict", action="store_true", help="print the formulas alone and stop (no GPU, no PyTorch)")
    parser.add_argument("--device", type=int, default=0, metavar="N", help="the GPU, as PyTorch counts them (0)")
    options = parser.parse_args(argv)
    if predicted_table and options.predict:
        print(predicted_table())
        return 0
    problem = gpu_problem(options.device)
    if problem:
        return stop(problem)
    import torch

    torch.cuda.set_device(options.device)
    print(f"{torch.cuda.get_device_name(options.device)}, PyTorch {torch.__version__}", flush=True)
    warned(company())
    check()
    print(f"check: {checked}", flush=True)
    print(footer(values(report(measure(), header, line))), flush=True)
    return 0
