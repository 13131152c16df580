"""By hand: executors of Spark die at the first, a middle and the last step.

``python benchmarks/kill_spark_executors.py`` starts three processes of Java and takes a
minute or two, so it is no part of the suite, which kills Python workers and drops what
executors keep. Needs the extra spark, Java 17 and Linux.
"""

import sys
import tempfile
import time
from pathlib import Path

import pytest

STEPS = 6
# A task runs in a worker of the daemon of an executor.
GRANDPARENT = 2


def fitted(rows):
    """Return the bits of a model, and the seconds of every question."""
    from corrdp.engines import HostedParts
    from corrdp.spark import LogisticRegression
    from engine_examples import bits
    from linear_model_examples import example_policy

    seconds, ask = [], HostedParts.ask

    def timed(self, question):
        started = time.monotonic()
        answers = ask(self, question)
        seconds.append(round(time.monotonic() - started, 1))
        return answers

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HostedParts, "ask", timed)
        model = LogisticRegression(
            example_policy(), n_steps=STEPS, epsilon=1.0, delta=1e-6, random_state=0
        )
        return bits(model.fit(rows)), seconds


def main():
    """Compare the models, and print how long each question took."""
    from corrdp.training.kernels import _plain
    from corrdp.training.rows import _questions
    from engine_examples import deadly_steps
    from linear_model_examples import example_frame
    from spark_session import spark_frame, spark_session

    _questions._kernel = _plain  # noqa: SLF001 (that of the workers)
    frame, steps = example_frame(20_000), (3, 5, 2 + STEPS)
    expected, _ = fitted(frame)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        spark = spark_session(Path(name), "local-cluster[2,1,512]")
        calm, seconds = fitted(spark_frame(spark, frame, 4))
        print(f"no death: same bits {calm == expected}, seconds {seconds}")
        died = deadly_steps(patch, Path(name), steps, GRANDPARENT)
        found, seconds = fitted(spark_frame(spark, frame, 4))
        print(f"died in {died()}: same bits {found == expected}, seconds {seconds}")
        all_died = died() == list(steps)
        spark.stop()
    if not (found == calm == expected and all_died):
        raise SystemExit("not the same model")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    main()
