"""`python -m sparseq …` is the `sparseq` command."""

from sparseq.cli import main

if __name__ == "__main__":
    main()
