"""`python -m workbench`, which is the command `workbench`."""

import sys

from workbench.cli.main import main

sys.exit(main())
