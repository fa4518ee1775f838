"""`python -m decmarvel`."""

import sys

from decmarvel.cli import main

sys.exit(main())
