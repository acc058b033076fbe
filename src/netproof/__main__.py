"""`python -m netproof`."""

from netproof.cli.main import main

if __name__ == "__main__":
    main()
