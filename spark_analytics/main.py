"""The same commands on a Spark cluster: `spark-submit --master spark://HOST:PORT spark_analytics/main.py COMMAND`."""

import sys
from pathlib import Path

# spark-submit runs the file by its path, so the package's parent directory is added.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from spark_analytics.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
