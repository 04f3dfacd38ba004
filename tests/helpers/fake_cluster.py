"""A cluster in this process that follows a script: it loses, doubles, delays and reorders."""

from contextlib import contextmanager

from benchharness.engines.cluster import Lost
from benchharness.leaderboard.job import Job
from benchharness.progress import Progress
from tests.helpers.fake_worker import make_result


class FakeCluster:
    """Errands come to an end one news() later, as the recipe of their job says.

    "ok" succeeds, "lost:N" is lost N times before, "twice" comes back twice, "late" is lost and
    comes back all the same, "slow:N" takes N news() more, "refused" could not be started.
    """

    name = "a fake cluster"

    def __init__(self, room=2):
        self._room = room
        self.sent, self.cancelled, self.remote_jobs = [], [], {}
        self.is_open = False
        self.ghosts = []

    @contextmanager
    def open(self):
        self.is_open = True
        try:
            yield
        finally:
            self.is_open = False

    def room(self):
        return self._room

    def send(self, remote):
        job = Job.from_json(remote.job)
        self.sent.append(job.seed)
        ticket = f"{job.seed}-{len(self.sent)}"
        self.remote_jobs[ticket] = [remote, job, 0]
        return ticket

    def news(self, tickets):
        assert self.is_open
        ghosts, self.ghosts = self.ghosts, []
        yield from ghosts
        for ticket in reversed(tickets):
            entry = self.remote_jobs[ticket]
            entry[2] += 1
            yield ticket, Progress(phase="training", step=1, steps=3)
            yield from self._end(ticket, *entry)

    def _end(self, ticket, remote, job, turns):
        what, _, number = job.recipe.partition(":")
        done = (ticket, make_result(job).to_json())
        if what == "lost" and self.sent.count(job.seed) <= int(number):
            yield ticket, Lost(reason="its node died")
        elif what == "late" and self.sent.count(job.seed) == 1:
            self.ghosts.append(done)
            yield ticket, Lost(reason="its node was cut off")
        elif what == "refused":
            yield ticket, {"refused": "node7: there is no such folder."}
        elif what == "slow" and turns <= int(number):
            return
        else:
            yield done
            if what == "twice":
                yield done

    def cancel(self, tickets):
        self.cancelled += tickets
