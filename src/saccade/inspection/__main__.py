"""`python -m saccade.inspection JOB`: the child process of a trial."""

from saccade.inspection.cost import main

if __name__ == "__main__":
    main()
