"""Run the command as `python -m jaxfs.cli`."""

from jaxfs.cli import main

if __name__ == "__main__":
    main()
