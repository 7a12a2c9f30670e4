"""`python -m saystream`."""

import sys

from saystream.cli import main

sys.exit(main())
