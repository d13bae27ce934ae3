//! The pool's decisions, as pure functions of a snapshot of its counters.
//!
//! Nothing here locks, waits or touches shared memory. The caller holds the pool's lock, asks, and
//! carries out the answer after it has unlocked. The property tests call the same functions.
//! `PROTOCOL.md` argues why the answers leave no task stranded.

use crate::config::{OnFull, UNLIMITED, limit};

/// Maximum number of workers that are being woken at the same time.
// More than one, because each wake-up is a system call and a burst would otherwise wait for them one after
// the other. A small number, because waking all of a thousand workers costs more than the few tasks that the
// first ones finish meanwhile.
pub(crate) const MOST_NOTIFIED: usize = 4;

/// A snapshot of the pool's counters, taken under its lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// Whether the pool accepts tasks: it has not been released.
    pub(crate) open: bool,
    /// Whether queued tasks are held back. Always `false` in a released pool.
    pub(crate) paused: bool,
    /// Accepted, unfinished tasks that hold room.
    pub(crate) in_flight: usize,
    /// Unused permits. They hold room, too.
    pub(crate) reserved: usize,
    /// Tasks that were removed from the queue unstarted and are still being disposed of. They hold no room.
    pub(crate) disposing: usize,
    /// Accepted tasks that have not started.
    pub(crate) queued: usize,
    /// Waiting submitters that count towards `max_waiting`. Tasks of a scheduler do not.
    pub(crate) waiting: usize,
    /// Maximum number of waiting submitters.
    pub(crate) max_waiting: usize,
    /// Maximum number of workers: the pool's capacity, plus one for each worker in a declared blocking section.
    pub(crate) capacity: usize,
    /// Maximum number of accepted tasks beyond the capacity.
    pub(crate) depth: usize,
    /// Started workers that have not ended.
    pub(crate) live: usize,
    /// Live workers that are looking for work and will check the queue again.
    pub(crate) searching: usize,
    /// Searching workers that were notified and are not awake yet.
    pub(crate) notified: usize,
    /// Live workers that sleep until woken.
    pub(crate) parked: usize,
    /// Live workers that are about to end.
    pub(crate) leaving: usize,
    /// Whether a worker thread is being started.
    pub(crate) starting: bool,
}

/// Answer to a task that asks for admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Released,
    /// There is room but no worker. A submit returns `Ok` only once a worker exists.
    FirstWorker,
    Room,
    Full,
}

/// The demand for workers, as seen by a drain task at the end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// Nothing.
    None,
    /// Accepted tasks are waiting for a worker, or callers are waiting for room.
    Others,
    /// The pool is paused: a drain task must stop pulling work into it.
    Paused,
    /// The pool has been released and waits for its workers to end.
    Released,
}

impl Demand {
    /// Whether a drain task should leave its worker.
    pub fn is_for_worker(self) -> bool {
        matches!(self, Self::Others | Self::Paused)
    }
}

/// How a full pool treats a blocking submit made by one of its own workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnWorker {
    /// The caller is not a worker of this pool, or the pool lets its workers wait like other threads.
    Stranger,
    /// Run the task in place.
    RunInPlace,
    /// Refuse the task: the policy says so, or the nesting limit is reached.
    Refuse,
}

/// The caller of a full pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) worker: OwnWorker,
    /// Whether the thread is below the nesting limit. A task that runs in its caller may submit another one, which
    /// runs in its caller again, so the depth must be bounded.
    pub(crate) may_nest: bool,
    /// The same limit for discards: a discard hook may submit, and thereby discard again.
    pub(crate) may_discard: bool,
}

/// How a full pool answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Refuse the call.
    Refuse,
    /// Run the task inside the one that the calling worker is running.
    RunInPlace,
    /// Run the task on the calling thread, which is not a worker.
    RunInCaller,
    /// Let the caller wait for room.
    Enqueue,
    /// Discard the oldest queued task to make room for the new one.
    DiscardOldest,
    /// Discard the new task.
    DiscardNewest,
}

impl WhenFull {
    /// Returns the answer that the policy asks for.
    pub(crate) fn asked(on_full: OnFull, caller: Caller) -> Self {
        match (on_full, caller.worker) {
            // Only below the limit, because a discard hook may submit, and so discard again.
            (OnFull::DiscardOldest, _) if caller.may_discard => Self::DiscardOldest,
            (OnFull::DiscardNewest, _) if caller.may_discard => Self::DiscardNewest,
            (OnFull::Refuse | OnFull::DiscardOldest | OnFull::DiscardNewest, _)
            // A worker must not wait for room that perhaps only the end of its own task would free.
            | (OnFull::Wait(_) | OnFull::RunInCaller, OwnWorker::Refuse) => Self::Refuse,
            (OnFull::Wait(_) | OnFull::RunInCaller, OwnWorker::RunInPlace) => Self::RunInPlace,
            (OnFull::RunInCaller, OwnWorker::Stranger) if caller.may_nest => Self::RunInCaller,
            (OnFull::Wait(_) | OnFull::RunInCaller, OwnWorker::Stranger) => Self::Enqueue,
        }
    }

    /// The same for a permit. A permit has no task yet that could be run or discarded.
    pub(crate) fn asked_by_permit(on_full: OnFull, worker: OwnWorker) -> Self {
        match (on_full, worker) {
            (OnFull::Refuse, _) | (_, OwnWorker::RunInPlace | OwnWorker::Refuse) => Self::Refuse,
            (
                OnFull::Wait(_)
                | OnFull::RunInCaller
                | OnFull::DiscardOldest
                | OnFull::DiscardNewest,
                OwnWorker::Stranger,
            ) => Self::Enqueue,
        }
    }
}

/// Which worker the wake policy notifies of queued work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notify {
    Nothing,
    Parked,
    Start,
}

/// Next step of a worker that found the queue empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Without {
    /// End: there are more workers than allowed, or the pool has been released.
    Leave,
    /// Sleep until woken or until the keep-alive expires.
    ParkTimed,
    /// Sleep until woken: only the core workers are left.
    Park,
}

impl View {
    /// Decides admission by the exact count of tasks that hold room. Waiting submitters exist only while the pool
    /// is full, so a submit that finds room overtakes none of them.
    #[inline]
    pub(crate) fn admission(&self) -> Admission {
        if !self.open {
            Admission::Released
        } else if !self.has_room() {
            Admission::Full
        } else if self.live == 0 {
            // Checked last: a full pool always has a worker, so only a pool with room may need its first one.
            Admission::FirstWorker
        } else {
            Admission::Room
        }
    }

    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        let limit = limit(self.capacity, self.depth);
        // Unlimited first, so that an unlimited pool does not add up its counters on each submit.
        limit == UNLIMITED || self.holding_room() < limit
    }

    /// Number of tasks and permits that hold room.
    #[inline]
    fn holding_room(&self) -> usize {
        self.in_flight + self.reserved
    }

    /// Adjusts the [asked](WhenFull::asked) answer to the pool's state.
    pub(crate) fn when_full(&self, asked: WhenFull) -> WhenFull {
        match asked {
            WhenFull::RunInCaller if !self.paused => WhenFull::RunInCaller,
            // A paused pool must start nothing, so the task of a caller that would have run it waits instead.
            WhenFull::Enqueue | WhenFull::RunInCaller => {
                if self.waiting < self.max_waiting {
                    WhenFull::Enqueue
                } else {
                    // These depend only on the caller, whom `asked` has checked before.
                    WhenFull::Refuse
                }
            }
            // Otherwise running tasks and permits hold all the room, and none of those can be discarded.
            WhenFull::DiscardOldest if self.queued == 0 => WhenFull::DiscardNewest,
            WhenFull::Refuse
            | WhenFull::RunInPlace
            | WhenFull::DiscardOldest
            | WhenFull::DiscardNewest => asked,
        }
    }

    /// Step N1: decides whom to notify, after every change that leaves tasks in the queue (a push, a take, a
    /// change of the capacity).
    ///
    /// A parked worker is notified only if no worker is spinning, fewer workers are notified than tasks are
    /// queued, and fewer than [`MOST_NOTIFIED`]. A worker that wakes up and finds a task asks again, so each
    /// wake-up triggers the next until the queue is empty.
    #[inline]
    pub(crate) fn wake_policy(&self) -> Notify {
        if self.queued == 0 || self.paused {
            Notify::Nothing
        } else if self.parked > 0 {
            // A worker that is being started does not count as spinning, because its start may fail.
            if self.spinning() == 0 && self.notified < self.queued.min(MOST_NOTIFIED) {
                Notify::Parked
            } else {
                Notify::Nothing
            }
        } else if self.searching < self.queued && self.live < self.capacity && !self.starting {
            // One start at a time: the new worker asks again, so a burst does not start more threads than it needs.
            Notify::Start
        } else {
            Notify::Nothing
        }
    }

    /// Number of searching workers that are awake. They check the queue within microseconds.
    #[inline]
    fn spinning(&self) -> usize {
        // Without the notified ones, because these may sleep for as long as the system lets them.
        self.searching - self.notified
    }

    /// Number of further tasks that can be queued before a worker must be notified.
    #[inline]
    fn notify_margin(&self) -> usize {
        // This mirrors `wake_policy` case by case. An answer that is too high would strand a task, because its
        // submitter asks nobody; one that is too low only costs a section.
        if self.paused {
            UNLIMITED
        } else if self.parked > 0 {
            if self.spinning() > 0 || self.notified >= MOST_NOTIFIED {
                UNLIMITED
            } else {
                self.notified.saturating_sub(self.queued)
            }
        } else if self.live >= self.capacity || self.starting {
            UNLIMITED
        } else {
            self.searching.saturating_sub(self.queued)
        }
    }

    /// Number of tasks that can be accepted without asking again: each of them finds room and notifies no worker.
    /// The number stays valid while running tasks end and their workers take the next ones.
    #[inline]
    pub(crate) fn credits(&self) -> usize {
        self.room().min(self.notify_margin())
    }

    /// Number of permits that can be reserved without asking again. A permit notifies no worker.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        if !self.open || self.live == 0 {
            // Every submit must ask: it is refused, or it has to start the first worker.
            return 0;
        }
        let limit = limit(self.capacity, self.depth);
        // An unlimited depth must stay unlimited, and not become finite by the subtraction.
        match limit {
            UNLIMITED => UNLIMITED,
            _ => limit.saturating_sub(self.holding_room()),
        }
    }

    /// Whether workers may go from one task to the next without asking, while the wait queue is empty: no worker
    /// has to end, and none has to be notified.
    #[inline]
    pub(crate) fn fast_path_enabled(&self) -> bool {
        // Each of the three needs a decision under the lock: a pause must hold the next task back, an excess worker must
        // end, and a wake-up must take a worker out of the idle set.
        !self.paused && self.excess() == 0 && self.wake_policy() == Notify::Nothing
    }

    /// Number of workers above the maximum. Workers that are ending do not count.
    #[inline]
    pub(crate) fn excess(&self) -> usize {
        self.staying().saturating_sub(self.capacity)
    }

    /// Decides the next step of a worker that holds no task and found the queue empty.
    pub(crate) fn without_work(&self, core_workers: usize) -> Without {
        // The last worker of a released pool must stay while a permit is out, because nobody else would run its task.
        if self.excess() > 0 || !(self.open || self.is_last_for_permits()) {
            Without::Leave
        } else if self.staying() > self.kept(core_workers) {
            Without::ParkTimed
        } else {
            Without::Park
        }
    }

    /// Live workers that are not on their way out.
    #[inline]
    fn staying(&self) -> usize {
        // A leaving worker has decided already, so it must not count as one that will take work.
        self.live - self.leaving
    }

    /// Number of workers that outstanding permits, or tasks queued in a paused pool, keep alive.
    #[inline]
    pub(crate) fn kept_for_permits(&self) -> usize {
        // One is enough: a later task then finds a live worker, and no thread, which the system may refuse, must be started.
        usize::from(self.reserved > 0 || self.paused && self.queued > 0)
    }

    /// Number of workers that do not expire.
    pub(crate) fn kept(&self, core_workers: usize) -> usize {
        // The larger number, because each is a lower bound and one worker may serve both.
        core_workers.max(self.kept_for_permits())
    }

    /// Whether the asking worker, which is not leaving, is the one that outstanding permits keep alive.
    #[inline]
    pub(crate) fn is_last_for_permits(&self) -> bool {
        self.staying() <= self.kept_for_permits()
    }

    /// Whether a leaving worker has to come back: for queued work that no other worker would do, or for a permit.
    /// The worker is still counted in `leaving`.
    pub(crate) fn must_stay(&self) -> bool {
        // An excess worker may go, because the others are enough; hence the comparison with the capacity.
        !self.paused && self.queued > 0 && self.staying() < self.capacity
            || self.staying() < self.kept_for_permits()
    }

    /// Whether the pool has ended: released, no worker live or being started, and no task being disposed of.
    pub(crate) fn ended(&self) -> bool {
        // Captures of disposed tasks are user data: a wait for the end must not return before they are dropped.
        !self.open && self.live == 0 && !self.starting && self.disposing == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows every combination of small counters that add up: workers that search, park, leave or run
    /// a task are live, and queued tasks are in flight.
    fn every_view(mut check: impl FnMut(View)) {
        let mut views = 0;
        for bits in 0..4_u8 {
            let (open, starting) = (bits & 1 != 0, bits & 2 != 0);
            for capacity in [1, 2, 3, UNLIMITED] {
                for depth in [0, 1, UNLIMITED] {
                    for (live, queued, running) in triples(4) {
                        for (searching, parked, leaving) in triples(3) {
                            if searching + parked + leaving + running > live {
                                continue;
                            }
                            for notified in 0..=searching {
                                views += 1;
                                check(View {
                                    open,
                                    paused: false,
                                    in_flight: queued + running,
                                    reserved: 0,
                                    disposing: 0,
                                    queued,
                                    waiting: 0,
                                    max_waiting: 1,
                                    capacity,
                                    depth,
                                    live,
                                    searching,
                                    notified,
                                    parked,
                                    leaving,
                                    starting,
                                });
                            }
                        }
                    }
                }
            }
        }
        assert!(views > 10_000, "only {views} views were looked at");
    }

    fn triples(most: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let each = move || 0..=most;
        each().flat_map(move |a| each().flat_map(move |b| each().map(move |c| (a, b, c))))
    }

    #[test]
    fn an_open_pool_is_full_exactly_when_as_many_tasks_are_in_flight_as_there_may_be() {
        every_view(|view| {
            let limit = view.capacity.checked_add(view.depth);
            let full = limit.is_some_and(|limit| limit != UNLIMITED && view.in_flight >= limit);
            let admission = view.admission();
            assert_eq!(admission == Admission::Released, !view.open, "{view:?}");
            if view.open {
                assert_eq!(admission == Admission::Full, full, "{view:?}");
            }
            assert_eq!(view.has_room(), !full, "{view:?}");
        });
    }

    #[test]
    fn nobody_is_told_that_there_is_room_while_no_worker_lives() {
        every_view(|view| match view.admission() {
            Admission::Room => assert!(view.live > 0, "{view:?}"),
            Admission::FirstWorker => assert_eq!(view.live, 0, "{view:?}"),
            Admission::Full | Admission::Released => {}
        });
    }

    fn every_caller(mut check: impl FnMut(Caller)) {
        for worker in [
            OwnWorker::Stranger,
            OwnWorker::RunInPlace,
            OwnWorker::Refuse,
        ] {
            for (may_nest, may_discard) in [(false, false), (false, true), (true, true)] {
                check(Caller {
                    worker,
                    may_nest,
                    may_discard,
                });
            }
        }
    }

    #[test]
    fn an_own_worker_never_waits_and_a_stranger_waits_or_does_what_its_policy_says() {
        every_caller(|caller| {
            let asked = |on_full| WhenFull::asked(on_full, caller);
            let wait = asked(OnFull::Wait(None));
            assert_eq!(asked(OnFull::Refuse), WhenFull::Refuse);
            match caller.worker {
                OwnWorker::Stranger => {
                    assert_eq!(wait, WhenFull::Enqueue);
                    let runs = asked(OnFull::RunInCaller) == WhenFull::RunInCaller;
                    assert_eq!(runs, caller.may_nest);
                }
                OwnWorker::RunInPlace => assert_eq!(wait, WhenFull::RunInPlace),
                OwnWorker::Refuse => assert_eq!(wait, WhenFull::Refuse),
            }
            if asked(OnFull::RunInCaller) != WhenFull::RunInCaller {
                assert_eq!(asked(OnFull::RunInCaller), wait);
            }
            for (on_full, discards) in [
                (OnFull::DiscardOldest, WhenFull::DiscardOldest),
                (OnFull::DiscardNewest, WhenFull::DiscardNewest),
            ] {
                let refuses = WhenFull::Refuse;
                let answer = if caller.may_discard {
                    discards
                } else {
                    refuses
                };
                assert_eq!(asked(on_full), answer);
            }
        });
    }

    #[test]
    fn a_permit_waits_or_is_refused() {
        let policies = [
            OnFull::Wait(None),
            OnFull::RunInCaller,
            OnFull::DiscardOldest,
            OnFull::DiscardNewest,
        ];
        every_caller(|Caller { worker, .. }| {
            let refused = WhenFull::asked_by_permit(OnFull::Refuse, worker);
            assert_eq!(refused, WhenFull::Refuse);
            for on_full in policies {
                let waits = WhenFull::asked_by_permit(on_full, worker) == WhenFull::Enqueue;
                assert_eq!(waits, worker == OwnWorker::Stranger);
            }
        });
    }

    #[test]
    fn a_full_pool_lets_wait_who_may_and_as_many_as_may() {
        every_view(|view| {
            for (waiting, paused) in (0..3).flat_map(|waiting| [(waiting, false), (waiting, true)])
            {
                let view = View {
                    paused,
                    waiting,
                    ..view
                };
                let wait = if waiting < view.max_waiting {
                    WhenFull::Enqueue
                } else {
                    WhenFull::Refuse
                };
                assert_eq!(view.when_full(WhenFull::Refuse), WhenFull::Refuse);
                assert_eq!(view.when_full(WhenFull::Enqueue), wait);
                assert_eq!(view.when_full(WhenFull::RunInPlace), WhenFull::RunInPlace);
                let runs = if paused { wait } else { WhenFull::RunInCaller };
                assert_eq!(view.when_full(WhenFull::RunInCaller), runs);
                let newest = view.when_full(WhenFull::DiscardNewest);
                assert_eq!(newest, WhenFull::DiscardNewest);
                let oldest = view.when_full(WhenFull::DiscardOldest);
                assert_eq!(oldest == WhenFull::DiscardOldest, view.queued > 0);
            }
        });
    }

    #[test]
    fn nobody_is_roused_without_work_or_for_work_that_somebody_looks_for() {
        every_view(|view| match view.wake_policy() {
            Notify::Nothing => {}
            Notify::Parked => {
                assert!(view.queued > 0 && view.parked > 0, "{view:?}");
                assert_eq!(view.searching, view.notified, "{view:?}");
                assert!(view.notified < view.queued, "{view:?}");
            }
            Notify::Start => {
                assert!(view.queued > view.searching && view.parked == 0, "{view:?}");
                assert!(view.live < view.capacity && !view.starting, "{view:?}");
            }
        });
    }

    #[test]
    fn after_a_rousing_work_lies_idle_only_if_every_worker_there_may_be_is_busy() {
        every_view(|mut view| {
            match view.wake_policy() {
                Notify::Nothing => {}
                Notify::Parked => {
                    view.parked -= 1;
                    view.searching += 1;
                    view.notified += 1;
                }
                Notify::Start => view.starting = true,
            }
            if view.queued > 0 && view.searching == 0 {
                assert_eq!(view.parked, 0, "{view:?}");
                assert!(view.live >= view.capacity || view.starting, "{view:?}");
            }
        });
    }

    #[test]
    fn a_worker_on_its_way_out_leaves_work_only_to_as_many_others_as_there_may_be() {
        every_view(|view| {
            if view.leaving == 0 {
                return;
            }
            let others = view.live - view.leaving;
            if view.must_stay() {
                assert!(view.queued > 0 && others < view.capacity, "{view:?}");
                let stayed = View {
                    leaving: view.leaving - 1,
                    searching: view.searching + 1,
                    ..view
                };
                assert_eq!(stayed.excess(), 0, "one that stays is not excess: {view:?}");
            } else if view.queued > 0 {
                assert!(others >= view.capacity, "{view:?}");
            }
        });
    }

    #[test]
    fn a_worker_without_work_leaves_when_it_is_surplus_or_the_pool_released_and_else_parks() {
        every_view(|view| {
            if view.searching == 0 {
                return;
            }
            let staying = view.live - view.leaving;
            for core_workers in 0..4 {
                let expected = if !view.open || staying > view.capacity {
                    Without::Leave
                } else if staying > core_workers {
                    Without::ParkTimed
                } else {
                    Without::Park
                };
                assert_eq!(
                    view.without_work(core_workers),
                    expected,
                    "{view:?}, {core_workers} core workers"
                );
            }
        });
    }

    #[test]
    fn a_pool_has_ended_only_when_nothing_is_left_of_it() {
        every_view(|view| {
            let nobody_left = view.live == 0 && !view.starting;
            assert_eq!(view.ended(), nobody_left && !view.open, "{view:?}");
            let disposing = View {
                disposing: 1,
                ..view
            };
            assert!(!disposing.ended(), "{disposing:?}");
        });
    }

    /// Events between two whole sections: a task enters, or a task ends and its worker takes the next.
    fn quick_steps(view: View) -> impl Iterator<Item = View> {
        let entered = View {
            in_flight: view.in_flight + 1,
            queued: view.queued + 1,
            ..view
        };
        let next = (view.queued > 0).then(|| View {
            in_flight: view.in_flight - 1,
            queued: view.queued - 1,
            ..view
        });
        [Some(entered), next].into_iter().flatten()
    }

    #[test]
    fn tasks_within_the_credits_would_be_accepted_and_notify_nobody() {
        let mut entered = 0;
        every_view(|first| {
            // All ways of two steps. A worker that takes a task makes room, which no decision counts
            // on.
            let mut views = vec![(first, first.credits())];
            for _ in 0..2 {
                let ways = views.iter().flat_map(|&(view, room)| {
                    quick_steps(view).map(move |after| (view, after, room))
                });
                views = ways
                    .filter(|(view, after, room)| after.queued < view.queued || *room > 0)
                    .map(|(view, after, room)| {
                        if after.queued < view.queued {
                            return (after, room);
                        }
                        entered += 1;
                        assert_eq!(view.admission(), Admission::Room, "{first:?}");
                        assert_eq!(
                            after.wake_policy(),
                            Notify::Nothing,
                            "{first:?}, then {after:?}"
                        );
                        (after, room - 1)
                    })
                    .collect();
            }
        });
        assert!(entered > 10_000, "only {entered} were entered");
    }

    #[test]
    fn permits_within_the_room_would_be_reserved_and_change_no_decision() {
        let mut reserved = 0;
        every_view(|view| {
            if view.room() == 0 {
                return;
            }
            reserved += 1;
            assert_eq!(view.admission(), Admission::Room, "{view:?}");
            let after = View {
                reserved: view.reserved + 1,
                ..view
            };
            assert_eq!(after.wake_policy(), view.wake_policy(), "{view:?}");
            assert_eq!(
                after.fast_path_enabled(),
                view.fast_path_enabled(),
                "{view:?}"
            );
            let left = view.credits().min(view.room() - 1);
            assert!(after.credits() >= left.min(after.room()), "{view:?}");
        });
        assert!(reserved > 10_000, "only {reserved} were reserved");
    }

    #[test]
    fn a_worker_that_goes_on_unasked_neither_leaves_nor_rouses_anybody() {
        let mut taken = 0;
        every_view(|first| {
            if !first.fast_path_enabled() {
                return;
            }
            let room = first.credits();
            for entered in 0..=room.min(2) {
                let before = View {
                    in_flight: first.in_flight + entered,
                    queued: first.queued + entered,
                    ..first
                };
                // It takes a task that was in the queue, or in the inbox if the queue was empty.
                if before.queued > 0 {
                    taken += 1;
                    let after = quick_steps(before).last().expect("one was taken");
                    assert_eq!(after.excess(), 0, "{first:?}");
                    assert_eq!(
                        after.wake_policy(),
                        Notify::Nothing,
                        "{first:?}, then {after:?}"
                    );
                }
            }
        });
        assert!(taken > 10_000, "only {taken} were taken");
    }

    #[test]
    fn a_permit_keeps_one_worker_however_many_are_core_workers_and_whether_released_or_not() {
        every_view(|view| {
            for reserved in 0..3 {
                let view = View { reserved, ..view };
                let staying = view.live - view.leaving;
                if view.leaving > 0 && staying == 0 && reserved > 0 {
                    assert!(view.must_stay(), "{view:?}");
                }
                if staying == 0 || view.excess() > 0 {
                    continue;
                }
                let last = reserved > 0 && staying == 1;
                for core_workers in 0..3 {
                    let without = view.without_work(core_workers);
                    if last {
                        assert_eq!(without, Without::Park, "{view:?}");
                    } else if !view.open {
                        assert_eq!(without, Without::Leave, "{view:?}");
                    }
                }
            }
        });
    }

    #[test]
    fn a_paused_pool_notifies_no_worker_and_keeps_one_while_a_task_is_queued() {
        every_view(|view| {
            let view = View {
                paused: true,
                ..view
            };
            if !view.open {
                return;
            }
            assert_eq!(view.wake_policy(), Notify::Nothing, "{view:?}");
            assert!(!view.fast_path_enabled(), "{view:?}");
            let staying = view.live - view.leaving;
            if view.leaving > 0 {
                assert_eq!(view.must_stay(), view.queued > 0 && staying == 0);
            }
            if staying > 0 && view.excess() == 0 {
                let keeps = view.queued > 0 && staying == 1;
                assert_eq!(view.without_work(0) == Without::Park, keeps, "{view:?}");
            }
        });
    }
}
