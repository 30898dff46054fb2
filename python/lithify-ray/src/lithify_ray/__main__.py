"""python -m lithify_ray is lithify-ray."""

import sys

from lithify_ray.main import main

sys.exit(main())
