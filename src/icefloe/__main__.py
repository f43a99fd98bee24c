"""The command `icefloe` as `python -m icefloe`."""

from icefloe.cli.main import main

if __name__ == "__main__":
    main()
