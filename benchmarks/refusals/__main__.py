"""`python -m benchmarks.refusals`: the two rates alone."""

import sys

from benchmarks.refusals import main

sys.exit(main())
