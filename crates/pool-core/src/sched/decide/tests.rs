//! The decisions, asked of every state of a small pool.

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
        for (waiting, paused) in (0..3).flat_map(|waiting| [(waiting, false), (waiting, true)]) {
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
            let ways = views
                .iter()
                .flat_map(|&(view, room)| quick_steps(view).map(move |after| (view, after, room)));
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
            // It takes one of those that lay in the queue, or in the inbox if there were none.
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
