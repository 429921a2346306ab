"""From a table to a report, with the command line only.

The table has 13 measurements of 178 wines of three cultivars. Its column `plate` is invented: the
wines were measured in the order of the cultivars, sixty on a plate.
"""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from sklearn.datasets import load_wine

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def write_table(path: Path) -> None:
    wine = load_wine(as_frame=True)
    table = wine.data.assign(plate=[i // 60 + 1 for i in range(178)])
    table = table.assign(cultivar=[f"cultivar {i + 1}" for i in wine.target])
    table.index = [f"wine {i + 1}" for i in range(178)]
    table.to_csv(path, index_label="sample")


def run(command: str) -> None:
    """Run a command `jaxfs …` and print it with everything that it prints."""
    print(f"$ {command}", flush=True)
    arguments = [sys.executable, "-m", "jaxfs.cli", *shlex.split(command)[1:]]
    done = subprocess.run(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(done.stdout, flush=True)
    done.check_returncode()


def picture(page: Path, path: Path) -> None:
    """Write a picture of the top of a page if there is a browser."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"no browser, no {path}")
        return
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    options += ["--window-size=620,420", f"--screenshot={path.resolve()}", page.resolve().as_uri()]
    subprocess.run([browser, *options], check=True, stderr=subprocess.DEVNULL, timeout=120)


def main() -> None:
    write_table(Path("wine.csv"))
    run("jaxfs select wine.csv --target cultivar --method anova -k 3")
    run(
        "jaxfs select wine.csv --target cultivar --drop plate --standardize"
        " --report report.html --plot scores.png --out chosen.csv"
    )
    picture(Path("report.html"), Path("report.png"))


if __name__ == "__main__":
    main()
