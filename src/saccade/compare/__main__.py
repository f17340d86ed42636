"""`python -m saccade.compare JOB`: the worker process of one training of a comparison."""

from saccade.compare.worker import main

if __name__ == "__main__":
    main()
