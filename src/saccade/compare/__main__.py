"""`python -m saccade.compare JOB`: one training of a comparison, for `child`."""

from saccade.compare.child import main

if __name__ == "__main__":
    main()
