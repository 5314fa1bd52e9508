"""`python -m jumar`."""

from jumar.cli import main

if __name__ == "__main__":
    main()
