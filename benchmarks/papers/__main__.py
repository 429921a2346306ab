"""Compute the figures and tables of the papers, and write docs/pages/results.

    JAXFS_DATA=… python -m benchmarks.papers [PAPER …] [--part NAME] [--splits N] [--again]
    python -m benchmarks.papers [PAPER …] --write

The numbers of each split are stored in benchmarks/papers/numbers, and only missing splits are
computed. `--again` deletes the stored numbers first, `--splits` computes the first splits only,
`--write` computes nothing and writes the pages again. The tables of a part change when all its
splits are stored.
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
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--again", action="store_true", help="delete the stored numbers first")
    other.add_argument("--write", action="store_true", help="write the pages only")
    given = parser.parse_args()
    for paper in given.papers:
        module = importlib.import_module(f"benchmarks.papers.{paper}")
        parts = [part for part in module.PARTS if isinstance(part, _parts.Part)]
        chosen = [part for part in parts if given.part in (None, part.name) and not given.write]
        for part in chosen if given.again else []:
            part.path.unlink(missing_ok=True)
        for part in chosen:
            _parts.compute(part, given.splits)
        _parts.write(paper, module)


if __name__ == "__main__":
    main()
