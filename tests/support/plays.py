"""What Hypothesis draws for the plays of the exactness tests."""

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

EDGES = [0.0, 1.0, *(i / 2**d for d in range(1, 5) for i in range(1, 2**d))]
contexts = st.one_of(st.sampled_from(EDGES), st.floats(0, 1))
plays = st.lists(contexts, min_size=5, max_size=60)
delays = st.sampled_from(["in step", "late", "lost"])


def on_a_store(examples: int) -> settings:
    """Not shrunk: an example is short enough to read, and shrinking it on a store takes minutes."""
    return settings(
        max_examples=examples,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
