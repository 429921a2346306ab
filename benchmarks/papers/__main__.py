"""Compute the figures and tables of the papers, and write docs/pages/results.

    JAXFS_DATA=… python -m benchmarks.papers [PAPER …] [--part NAME] [--splits N] [--write]

Numbers are stored split by split under results/, so that an interrupted run resumes. `--splits`
computes the first splits only, `--write` computes nothing and writes the pages again. The section
of a part changes when all its splits are stored.
"""

import argparse
import importlib

from benchmarks.papers import _parts

PAPERS = ("manifest", "report", "gaussian", "ssfs", "dirichlet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "papers", nargs="*", default=PAPERS, metavar="PAPER", help=", ".join(PAPERS)
    )
    parser.add_argument("--part", help="compute one part only")
    parser.add_argument("--splits", type=int, help="compute at most this number of splits")
    parser.add_argument("--write", action="store_true", help="write the pages only")
    given = parser.parse_args()
    for paper in given.papers:
        module = importlib.import_module(f"benchmarks.papers.{paper}")
        for part in module.PARTS:
            chosen = isinstance(part, _parts.Part) and given.part in (None, part.name)
            if chosen and not given.write:
                _parts.compute(part, given.splits)
        _parts.write(paper, module)


if __name__ == "__main__":
    main()
