//! The plans of all small states.

use super::*;

const MILLI: Duration = Duration::from_millis(1);
/// The views' horizon: a job due within it may be claimed ahead.
const WITHIN: Duration = Duration::from_millis(10);
/// The store's time in the views.
const NOW: StoreTime = StoreTime::from_micros(1_000_000_000);

fn soon() -> StoreTime {
    NOW.after(MILLI)
}

fn far() -> StoreTime {
    NOW.after(SAFETY_LOOK * 2)
}

fn before(at: Instant, span: Duration) -> Instant {
    at.checked_sub(span)
        .expect("the time of the views is late enough")
}

/// Returns a view with nothing to do.
fn idle() -> View {
    let now = Instant::now() + SAFETY_LOOK * 2; // So that there are earlier times.
    View {
        now,
        offset: Some(Offset::new(now, NOW)),
        demand: 0,
        closing: false,
        deadline: None,
        spares_at: None,
        allowed: usize::MAX,
        next_token: None,
        retry_at: None,
        claim_at: None,
        look_at: None,
        has_lost_claim: false,
        commands: 0,
        quiet: 0,
        quiet_since: None,
        sync: MILLI * 4,
        is_running: false,
        cancels_at: None,
        next_renewal: None,
        ahead: 0,
        due: 0,
        next_due: None,
        known: Known {
            first: StoreTime::NEVER,
            first_free: StoreTime::NEVER,
            claimed_at: Some(now),
            ..Known::nothing()
        },
        horizon: WITHIN,
        prefetch: 0,
    }
}

/// Passes every combination of small counters and near times that is consistent, for a store that responds.
fn every_view(mut check: impl FnMut(&View)) {
    let mut views = 0;
    let idle = idle();
    let past = before(idle.now, MILLI);
    let times = [None, Some(past), Some(idle.now + MILLI)];
    for bits in 0..16_u8 {
        let bit = |number: u8| bits & (1 << number) != 0;
        let view = View {
            closing: bit(0),
            prefetch: usize::from(bit(1)),
            ..idle
        };
        let (paused, is_stale) = (bit(2), bit(3));
        let claimed_at = Some(before(idle.now, if is_stale { SAFETY_LOOK } else { MILLI }));
        for (demand, allowed) in [0, 1, 2]
            .into_iter()
            .flat_map(|demand| [0, 1, usize::MAX].map(|allowed| (demand, allowed)))
        {
            for (due, later) in [(0, 0), (0, 1), (1, 0), (1, 1), (3, 0)] {
                for first in [UNKNOWN, NOW, soon(), far(), StoreTime::NEVER] {
                    for first_free in [NOW, soon(), far(), StoreTime::NEVER] {
                        for (commands, quiet, held) in
                            [(0, 0, 0), (1, 0, 0), (1, 1, 0), (2, 1, 0), (1, 1, 1)]
                        {
                            for next_renewal in times {
                                for claim_at in times {
                                    views += 1;
                                    check(&View {
                                        demand,
                                        allowed,
                                        next_token: (allowed < 2).then(|| idle.now + MILLI),
                                        claim_at,
                                        commands,
                                        quiet,
                                        quiet_since: (quiet > 0)
                                            .then(|| before(idle.now, idle.sync * HOLD * held)),
                                        is_running: next_renewal.is_some(),
                                        next_renewal,
                                        ahead: due + later,
                                        due,
                                        next_due: (later > 0).then(soon),
                                        known: Known {
                                            first,
                                            first_free,
                                            paused,
                                            claimed_at,
                                            ..idle.known
                                        },
                                        ..view
                                    });
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(views > 500_000, "only {views} views were looked at");
}

/// Passes the turns of all views.
fn every_turn(mut check: impl FnMut(&View, TurnPlan)) {
    let mut turns = 0;
    every_view(|view| {
        if let Plan::Turn(turn) = view.plan() {
            turns += 1;
            check(view, turn);
        }
    });
    assert!(turns > 100_000, "only {turns} turns were planned");
}

/// Passes the sleeps of all views.
fn every_sleep(mut check: impl FnMut(&View, StoreTime, Option<Instant>)) {
    let mut sleeps = 0;
    every_view(|view| {
        if let Plan::Sleep { threshold, until } = view.plan() {
            sleeps += 1;
            check(view, threshold, until);
        }
    });
    assert!(sleeps > 10_000, "only {sleeps} sleeps were planned");
}

/// Returns how many jobs calls may be given, by the pump's invariants.
fn may_start(view: &View) -> usize {
    if view.closing {
        0
    } else {
        view.demand.min(view.allowed)
    }
}

/// The store has said so, and no safety look is due.
fn is_paused(view: &View) -> bool {
    let claimed_at = view.known.claimed_at.expect("it was answered");
    let is_stale = view.now - claimed_at >= SAFETY_LOOK && may_start(view) > 0;
    view.known.paused && !is_stale
}

fn is_claim_pausing(view: &View) -> bool {
    view.claim_at.is_some_and(|at| view.now < at)
}

#[test]
fn starts_and_claims_do_not_exceed_the_demand_and_the_rate() {
    let mut claims = 0;
    every_turn(|view, turn| {
        assert!(turn.start <= may_start(view).min(view.due), "{view:?}");
        let Some(claim) = turn.claim else { return };
        claims += 1;
        assert!(!is_paused(view) && !is_claim_pausing(view), "{view:?}");
        assert_eq!(turn.start + claim.start, may_start(view), "{view:?}");
        assert!(claim.start > 0, "{view:?}");
        let left = view.ahead - turn.start - turn.release;
        let most = claim.start + view.prefetch.min(view.allowed - may_start(view));
        assert_eq!(claim.max, most, "{view:?}");
        assert_eq!(claim.ahead, most.saturating_sub(left), "{view:?}");
        assert!(claim.max <= view.allowed - turn.start, "{view:?}");
    });
    assert!(claims > 10_000, "only {claims} claims were planned");
}

#[test]
fn wanted_due_jobs_start_and_others_are_released_except_for_the_prefetch() {
    every_view(|view| {
        let (start, release) = match view.plan() {
            Plan::Turn(TurnPlan { start, release, .. }) => (start, release),
            Plan::End { .. } => return,
            _ => (0, 0),
        };
        if view.closing || is_paused(view) {
            assert_eq!((start, release), (0, view.ahead), "{view:?}");
            return;
        }
        assert_eq!(start, may_start(view).min(view.due), "{view:?}");
        let kept = view.prefetch.min(view.allowed - may_start(view));
        assert_eq!(release, (view.due - start).saturating_sub(kept), "{view:?}");
    });
}

#[test]
fn a_turn_without_settles_and_claim_is_not_made() {
    every_turn(|view, turn| {
        let held = if turn.holds_quiet { view.quiet } else { 0 };
        let settles = view.commands - held + turn.start + turn.release;
        assert!(
            settles > 0 || turn.renews || turn.claim.is_some(),
            "{view:?}"
        );
    });
}

#[test]
fn only_commands_that_can_wait_are_held_back_while_an_awaited_job_falls_due() {
    let mut holds = 0;
    every_view(|view| {
        let sent = match view.plan() {
            Plan::Turn(turn) if !turn.holds_quiet => view.commands,
            Plan::Turn(_) | Plan::Sleep { .. } => view.commands - view.quiet,
            Plan::End { .. } => return,
            other => panic!("{other:?} of {view:?}"),
        };
        if sent == view.commands {
            return;
        }
        holds += 1;
        let since = view.quiet_since.expect("a command waits");
        assert!(view.now < since + view.sync * HOLD, "{view:?}");
        assert!(may_start(view) > 0, "{view:?}");
        let is_near = |due| due <= NOW.after(view.sync);
        assert!(
            view.due > 0 || view.next_due.is_some_and(is_near),
            "{view:?}"
        );
    });
    assert!(holds > 1_000, "only {holds} were held back");
    let idle = idle();
    let quick = View {
        demand: 1,
        commands: 1,
        quiet: 1,
        quiet_since: Some(idle.now),
        sync: NOTICED.mul_f64(0.9),
        ahead: 1,
        next_due: Some(NOW.after(Duration::from_micros(1))),
        ..idle
    };
    let Plan::Turn(turn) = quick.plan() else {
        panic!("it is sent")
    };
    assert!(!turn.holds_quiet, "a commit that is quick delays no job");
}

#[test]
fn the_pump_does_not_sleep_while_it_has_something_to_do() {
    every_sleep(|view, _, _| {
        assert!(view.next_renewal.is_none_or(|at| at > view.now), "{view:?}");
        let wanted = may_start(view);
        assert!(wanted == 0 || is_paused(view) || view.due == 0, "{view:?}");
        if wanted > 0 && !is_paused(view) && !is_claim_pausing(view) {
            let Known {
                first, first_free, ..
            } = view.known;
            let most = wanted + view.prefetch.min(view.allowed - wanted);
            assert!(first > NOW, "{view:?}");
            assert!(
                view.ahead >= most || first_free > NOW.after(WITHIN),
                "{view:?}"
            );
        }
    });
}

/// Returns the view of the same pump after its sleep has timed out.
fn at(view: &View, until: Instant) -> View {
    let store_now = view.offset.expect("it is known").store_time(until);
    let has_fallen_due = view.next_due.is_some_and(|due| due <= store_now);
    View {
        now: until,
        allowed: match view.next_token {
            Some(at) if at <= until => view.allowed + 1,
            _ => view.allowed,
        },
        next_token: view.next_token.filter(|at| *at > until),
        due: view.due + usize::from(has_fallen_due),
        next_due: view.next_due.filter(|_| !has_fallen_due),
        ..*view
    }
}

#[test]
fn sleeps_end_in_the_future_and_are_not_followed_by_empty_ones() {
    let mut dones = 0;
    every_sleep(|view, _, until| {
        let Some(until) = until else { return };
        assert!(until > view.now, "{view:?}");
        let view = at(view, until);
        match view.plan() {
            Plan::Sleep { until: next, .. } => {
                assert!(next.is_none_or(|next| next > until), "{view:?}");
            }
            _ => dones += 1,
        }
    });
    assert!(dones > 10_000, "only {dones} sleeps ended in a plan");
}

#[test]
fn each_reason_to_wake_ends_the_sleep() {
    let idle = idle;
    let idle = idle();
    let now = idle.now;
    let awaited = View { demand: 1, ..idle };
    let later = now + MILLI * 5;
    let due = NOW.after(MILLI * 5);
    let known = |first, first_free| Known {
        first,
        first_free,
        ..idle.known
    };
    let next_job = View {
        ahead: 1,
        next_due: Some(due),
        ..idle
    };
    let views = [
        View {
            deadline: Some(later),
            closing: true,
            is_running: true,
            ..idle
        },
        View {
            spares_at: Some(later),
            ..idle
        },
        View {
            next_token: Some(later),
            allowed: 0,
            ..awaited
        },
        View {
            retry_at: Some(later),
            ..idle
        },
        View {
            claim_at: Some(later),
            known: Known::nothing(),
            ..awaited
        },
        View {
            look_at: Some(later),
            ..awaited
        },
        View {
            next_renewal: Some(later),
            is_running: true,
            ..idle
        },
        View {
            next_renewal: Some(later),
            is_running: true,
            ..awaited
        },
        next_job,
        View {
            demand: 1,
            ..next_job
        },
        View {
            known: known(due, StoreTime::NEVER),
            ..awaited
        },
        View {
            known: known(StoreTime::NEVER, due.after(WITHIN)),
            ..awaited
        },
        View {
            known: Known {
                claimed_at: Some(before(later, SAFETY_LOOK)),
                ..idle.known
            },
            ..awaited
        },
        View {
            demand: 1,
            commands: 1,
            quiet: 1,
            quiet_since: Some(before(later, MILLI * 10 * HOLD)),
            sync: MILLI * 10,
            next_due: Some(NOW.after(MILLI * 6)),
            ..next_job
        },
    ];
    for view in views {
        let Plan::Sleep { until, .. } = view.plan() else {
            panic!("{view:?}")
        };
        assert_eq!(until, Some(later), "{view:?}");
    }
}

#[test]
fn the_time_to_ask_for_cancels_or_to_poll_the_watch_for_them_ends_the_sleep() {
    let idle = idle();
    let later = idle.now + MILLI * 5;
    for demand in [0, 1] {
        let running = View {
            demand,
            is_running: true,
            ..idle
        };
        let asking = View {
            cancels_at: Some(later),
            ..running
        };
        let polling = View {
            look_at: Some(match demand {
                0 => before(later, CANCEL_PAUSE),
                _ => later,
            }),
            ..running
        };
        for view in [asking, polling] {
            let Plan::Sleep { until, .. } = view.plan() else {
                panic!("{view:?}")
            };
            assert_eq!(until, Some(later), "{view:?}");
        }
    }
}

#[test]
fn a_token_ends_the_sleep_only_if_a_call_waits_for_it() {
    let token = View {
        next_token: Some(idle().now + MILLI),
        ..idle()
    };
    for (demand, allowed, closing) in [(0, 0, false), (1, 1, false), (1, 0, true)] {
        let view = View {
            demand,
            allowed,
            closing,
            is_running: true,
            known: Known {
                claimed_at: None,
                ..token.known
            },
            ..token
        };
        let Plan::Sleep { until, .. } = view.plan() else {
            panic!("{view:?}")
        };
        assert_eq!(until, None, "{view:?}");
    }
}

#[test]
fn an_announcement_concerns_a_sleep_exactly_if_it_changes_the_plan() {
    let mut changes = 0;
    every_sleep(|view, threshold, _| {
        for due in [UNKNOWN, NOW, soon(), NOW.after(WITHIN + MILLI), far()] {
            let mut heard = *view;
            heard.known.announced(due);
            heard.cancels_at = Some(view.now).filter(|_| due < AFTER_RECALL);
            let is_changed = heard.plan() != view.plan();
            changes += u64::from(is_changed);
            if is_claim_pausing(view) {
                assert!(due < threshold || !is_changed, "{due:?} of {view:?}");
            } else {
                assert_eq!(is_changed, due < threshold, "{due:?} of {view:?}");
            }
        }
    });
    assert!(changes > 1_000, "only {changes} plans were changed");
}

#[test]
fn after_an_error_the_pump_pauses() {
    every_view(|view| {
        let retry_at = view.now + MILLI;
        let pausing = View {
            retry_at: Some(retry_at),
            has_lost_claim: true,
            look_at: Some(view.now),
            ..*view
        };
        let expected = Plan::Sleep {
            threshold: UNKNOWN,
            until: Some(retry_at),
        };
        assert_eq!(pausing.plan(), expected, "{view:?}");
        let over = View {
            retry_at: Some(view.now),
            ..*view
        };
        assert_eq!(over.plan(), view.plan());
    });
}

#[test]
fn lost_claims_are_recovered_and_the_watch_is_polled_before_a_claim() {
    every_view(|view| {
        let lost = View {
            has_lost_claim: true,
            look_at: Some(view.now),
            ..*view
        };
        let is_recovering = lost.plan() == Plan::Recover;
        assert_eq!(is_recovering, view.demand > 0 || view.closing, "{view:?}");
        let watching = View {
            look_at: Some(view.now),
            ..*view
        };
        let is_looking = watching.plan() == Plan::Look;
        assert_eq!(is_looking, may_start(view) > 0, "{view:?}");
    });
}

#[test]
fn the_store_is_asked_for_cancels_only_while_a_job_runs_and_no_more_often_than_it_may() {
    every_view(|view| {
        for pause in [Duration::ZERO, MILLI] {
            let recalled = View {
                cancels_at: Some(view.now + pause),
                ..*view
            };
            let plan = recalled.plan();
            if view.is_running && pause.is_zero() {
                assert_eq!(plan, Plan::AskForCancels, "{view:?}");
            } else if let (Plan::Sleep { until, .. }, true) = (plan, view.is_running) {
                assert!(until.is_some_and(|at| at <= view.now + MILLI), "{view:?}");
            } else {
                assert_eq!(plan, view.plan(), "{view:?}");
            }
        }
    });
}

#[test]
fn while_jobs_run_and_no_call_waits_the_watch_is_polled_at_the_pause_of_cancels() {
    every_view(|view| {
        for (ago, is_due) in [(CANCEL_PAUSE, true), (CANCEL_PAUSE.mul_f64(0.9), false)] {
            let watching = View {
                look_at: Some(before(view.now, ago)),
                ..*view
            };
            let is_looking = watching.plan() == Plan::Look;
            let expected = may_start(view) > 0 || is_due && view.is_running;
            assert_eq!(is_looking, expected, "{view:?}");
        }
    });
}

#[test]
fn a_closing_pump_ends_when_it_holds_no_job_or_at_its_deadline() {
    every_view(|view| {
        for has_lost_claim in [false, true] {
            let view = View {
                has_lost_claim,
                ..*view
            };
            let held = view.ahead + view.commands + usize::from(view.is_running);
            let cut_short = held > 0 || has_lost_claim;
            let end = Plan::End { cut_short };
            let ends = view.plan() == end;
            assert_eq!(ends, view.closing && !cut_short, "{view:?}");
            let late = View {
                deadline: Some(view.now),
                retry_at: Some(view.now + MILLI),
                ..view
            };
            assert_eq!(late.plan() == end, view.closing, "{view:?}");
        }
    });
}

#[test]
fn before_the_first_response_no_job_is_due() {
    let view = View {
        offset: None,
        known: Known::nothing(),
        prefetch: 2,
        ..idle()
    };
    assert_eq!(
        view.plan(),
        Plan::Sleep {
            threshold: UNKNOWN,
            until: None
        }
    );
    let claim = ClaimPlan {
        max: 3,
        start: 1,
        ahead: 3,
        urgent_first: true,
    };
    let turn = TurnPlan {
        holds_quiet: false,
        renews: false,
        start: 0,
        release: 0,
        claim: Some(claim),
    };
    assert_eq!(View { demand: 1, ..view }.plan(), Plan::Turn(turn));
}

fn claimed(first: StoreTime, first_free: StoreTime) -> Claimed {
    Claimed {
        leases: Vec::new(),
        first,
        first_free,
    }
}

#[test]
fn one_claim_of_eight_ignores_urgency() {
    let mut view = View {
        demand: 1,
        known: Known::nothing(),
        ..idle()
    };
    let urgent: Vec<_> = (0..FAIR * 2)
        .map(|_| {
            let Plan::Turn(TurnPlan { claim, .. }) = view.plan() else {
                panic!("{view:?}")
            };
            view.known
                .claimed(&claimed(NOW, NOW), NOW.after(MILLI), WITHIN, view.now);
            claim.expect("a call waits").urgent_first
        })
        .collect();
    let round = [[true; FAIR as usize - 1].as_slice(), &[false]].concat();
    assert_eq!(urgent, [round.clone(), round].concat());
}

#[test]
fn a_locked_job_is_retried_after_pauses_that_double_up_to_a_maximum() {
    let mut known = Known::nothing();
    let locked = claimed(NOW.after(LOCKED_AGAIN), NOW);
    let mut expected = LOCKED_AGAIN;
    for _ in 0..20 {
        known.claimed(&locked, NOW, WITHIN, Instant::now());
        assert_eq!(known.first, NOW.after(expected));
        assert_eq!(known.first_free, NOW.after(expected + WITHIN));
        expected = (expected * 2).min(LONGEST_LOCKED_PAUSE);
    }
    known.claimed(&claimed(far(), far()), NOW, WITHIN, Instant::now());
    assert_eq!((known.first, known.first_free), (far(), far()));
    known.claimed(&locked, NOW, WITHIN, Instant::now());
    assert_eq!(known.first, NOW.after(LOCKED_AGAIN), "they begin anew");
}
