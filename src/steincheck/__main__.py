"""``python -m steincheck`` is the command line."""

from steincheck_command import main

if __name__ == "__main__":
    main()
