"""General optimizers on the space of a search: Optuna's TPE and pymoo's NSGA-II, as someone who knows them would set them up.

Both choose vectors (`search_vectors.py`), of which every one is a candidate, and are told the planner's figures of it: seconds, to make
least, and by how much it is over the limits. What the planner refuses is told as slow and far over them. Both begin with the candidates
that a search begins with, and ask for `BATCH` new ones at a time, which the same worker processes plan. One that is known costs nothing.

- Optuna: the multivariate sampler with constant liar, constraints by `Trial.set_constraint`, whole numbers for what has an order, else
  categories;
- pymoo: mixed variables with repair (an individual is the vector of its candidate), a population that fits the few hundred candidates that
  a minute allows.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.search_vectors import CandidateVectors
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.requirements import AtMost, Requirement, allows_figures
from workbench.search.search_figures import Figures
from workbench.search.worker_questions import Answerer, Question

BATCH = 8
"""Candidates that are planned at a time, as many as a search opens nodes."""
POPULATION = 16
_MOST_ASKED = 64
"""Vectors asked for until a batch of new candidates is full."""


@dataclass(frozen=True, slots=True)
class Score:
    """What an optimizer is told: seconds, and the share by which the limit that is exceeded most is exceeded; none are at 0 or less."""

    seconds: float
    excess: float


REFUSED = Score(1e3, 1e2)


@dataclass
class Judge:
    """Has candidates planned until `seconds` are over, and remembers them. Not a value: it counts."""

    requirements: Sequence[Requirement]
    answerer: Answerer
    seconds: float
    begin: float = field(default_factory=time.perf_counter)
    scores: dict[PlanCandidate, Score] = field(default_factory=dict)
    points: list[tuple[float, int, float, str]] = field(default_factory=list)
    """Whenever a better one was found: seconds since the beginning, candidates planned, seconds of the step, the candidate."""
    evaluated: int = 0
    refused: int = 0

    @property
    def is_over(self) -> bool:
        return time.perf_counter() - self.begin >= self.seconds

    def judge(self, candidates: Iterable[PlanCandidate]) -> None:
        """Have those that are not known planned, in batches; none once the time is over. What arrives too late does not count."""
        asked = [each for each in dict.fromkeys(candidates) if each not in self.scores]
        for start in range(0, len(asked), BATCH):
            batch = asked[start : start + BATCH]
            found = [] if self.is_over else self.answerer.ask([Question("figures", each) for each in batch])
            elapsed = time.perf_counter() - self.begin
            for candidate, answer in zip(batch, found, strict=False):
                self._keep(candidate, answer, elapsed)

    def score_of(self, candidate: PlanCandidate) -> Score:
        """The score of one that was planned, else as of one that is refused: the time is over."""
        return self.scores.get(candidate, REFUSED)

    def _keep(self, candidate: PlanCandidate, answer: object, elapsed: float) -> None:
        self.scores[candidate] = self._score(answer)
        if elapsed > self.seconds:
            return
        self.evaluated += 1
        if not isinstance(answer, Figures):
            self.refused += 1
        elif allows_figures(self.requirements, answer) and (not self.points or answer.seconds < self.points[-1][2]):
            self.points.append((round(elapsed, 2), self.evaluated, answer.seconds, str(candidate)))

    def _score(self, answer: object) -> Score:
        if not isinstance(answer, Figures):
            return REFUSED
        limits = [each for each in self.requirements if isinstance(each, AtMost)]
        return Score(answer.seconds, max((getattr(answer, each.figure) / each.limit - 1 for each in limits), default=0.0))


def run_optuna(judge: Judge, vectors: CandidateVectors, first: Sequence[PlanCandidate], seed: int) -> None:
    """Optuna's TPE until the time is over."""
    import optuna
    from optuna.distributions import CategoricalDistribution, IntDistribution

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(multivariate=True, constant_liar=True, seed=seed))
    names = [column.name for column in vectors.columns]
    distributions = {
        each.name: IntDistribution(0, each.count - 1) if each.is_ordered else CategoricalDistribution(range(each.count))
        for each in vectors.columns
    }
    for candidate in first:
        study.enqueue_trial(dict(zip(names, vectors.encode(candidate), strict=True)))
    while not judge.is_over:
        batch: list[tuple[Any, PlanCandidate]] = []
        for _ in range(_MOST_ASKED):
            trial = study.ask(distributions)
            candidate = vectors.decode([trial.params[name] for name in names])
            if candidate in judge.scores:
                _tell(study, trial, judge.score_of(candidate))
                continue
            batch.append((trial, candidate))
            if len({each for _, each in batch}) == BATCH or judge.is_over:
                break
        judge.judge(candidate for _, candidate in batch)
        for trial, candidate in batch:
            _tell(study, trial, judge.score_of(candidate))


def _tell(study: Any, trial: Any, score: Score) -> None:
    trial.set_constraint("limits", score.excess)
    study.tell(trial, score.seconds)


def run_pymoo(judge: Judge, vectors: CandidateVectors, first: Sequence[PlanCandidate], seed: int) -> None:
    """pymoo's NSGA-II until the time is over."""
    import numpy as np
    from pymoo.algorithms.moo.nsga2 import NSGA2, binary_tournament
    from pymoo.core.evaluator import Evaluator
    from pymoo.core.mixed import MixedVariableDuplicateElimination, MixedVariableMating, MixedVariableSampling
    from pymoo.core.population import Population
    from pymoo.core.problem import Problem
    from pymoo.core.repair import Repair
    from pymoo.core.termination import NoTermination
    from pymoo.core.variable import Choice, Integer
    from pymoo.operators.selection.tournament import TournamentSelection
    from pymoo.problems.static import StaticProblem

    names = [column.name for column in vectors.columns]

    def decode(individual: Mapping[str, Any]) -> PlanCandidate:
        return vectors.decode([int(individual[name]) for name in names])

    def encode(candidate: PlanCandidate) -> dict[str, int]:
        return dict(zip(names, vectors.encode(candidate), strict=True))

    class ToCandidate(Repair):
        def _do(self, problem: Any, X: Any, **_: Any) -> Any:  # noqa: N803 - pymoo's letter
            del problem
            return np.array([encode(decode(each)) for each in X], dtype=object)

    choices = {
        each.name: Integer(bounds=(0, each.count - 1)) if each.is_ordered else Choice(options=list(range(each.count)))
        for each in vectors.columns
    }
    problem, repair, same = Problem(vars=choices, n_obj=1, n_ieq_constr=1), ToCandidate(), MixedVariableDuplicateElimination()
    drawn = MixedVariableSampling()(problem, max(POPULATION - len(first), 0), random_state=np.random.default_rng(seed))
    begun = Population.new(X=[*(encode(each) for each in first), *(encode(decode(each)) for each in drawn.get("X"))])
    mating = MixedVariableMating(TournamentSelection(func_comp=binary_tournament), repair=repair, eliminate_duplicates=same)
    algorithm = NSGA2(POPULATION, begun, mating=mating, repair=repair, eliminate_duplicates=same, n_offsprings=BATCH)
    algorithm.setup(problem, termination=NoTermination(), seed=seed, verbose=False)
    while not judge.is_over:
        asked = algorithm.ask()
        candidates = [decode(each.X) for each in asked]
        judge.judge(candidates)
        scores = [judge.score_of(each) for each in candidates]
        answers = StaticProblem(problem, F=np.array([[each.seconds] for each in scores]), G=np.array([[each.excess] for each in scores]))
        Evaluator().eval(answers, asked)
        algorithm.tell(infills=asked)


OPTIMISERS: Mapping[str, Callable[[Judge, CandidateVectors, Sequence[PlanCandidate], int], None]] = {
    "optuna": run_optuna,
    "pymoo": run_pymoo,
}
