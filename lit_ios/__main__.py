"""`python -m lit_ios` is the program, too."""

from lit_ios.program import main

if __name__ == "__main__":
    raise SystemExit(main())
