"""A run of one side as the benchmarks measure it."""


def make_run(side, seed, seconds, train_seconds):
    details = {"job_seconds": seconds - 1, "train_tokens": 1000, "precision": "bf16"}
    if side != "ours":
        details = {"train_tokens": 1000, "train_squares": 50_000, "dev_tokens": 100}
    return {
        "side": side,
        "seeds": [seed],
        "seconds": seconds,
        "cpu_seconds": 2 * seconds,
        "peak_bytes": 5e8,
        "train_seconds": train_seconds,
        "predict_seconds": 0.5,
        "scores": [{"accuracy": 0.5 + seed / 10}],
        "details": details,
    }
