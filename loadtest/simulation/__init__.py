"""The paper's experiments and our own, rerun with the sequential learner; `zooming simulate`."""
