"""Entry point of `python -m saccade` and `torchrun -m saccade`."""

from saccade.cli import main

if __name__ == "__main__":
    main()
