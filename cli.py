"""`python cli.py …` is the `sparseq` command, from a checkout that is not installed."""

from sparseq.cli import main

if __name__ == "__main__":
    main()
