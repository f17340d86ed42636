"""`python -m saccade.compare JOB`: one training of a comparison, for `child`."""

from saccade.compare.worker import main

if __name__ == "__main__":
    main()
