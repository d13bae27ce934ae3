//! The tests that every store has to pass: the requirements of [`Store`], one by one.
//!
//! A store's crate implements [`Fixture`] and invokes the macro in a test module:
//!
//! ```ignore
//! durable_queue_testing::conformance_tests!(MyFixture::new);
//! ```
//!
//! Use `conformance_tests!(if MyFixture::new())` if a fixture may be unavailable, for example without a
//! server. Each requirement is a separate test with its own fixture.
//!
//! # Rules
//! 1. No test depends on durations: the fixture moves the store's clock.
//! 2. Each test uses its own queue names.

#![expect(
    clippy::missing_panics_doc,
    reason = "a test panics if the promise is not kept"
)]
#![expect(
    clippy::unchecked_time_subtraction,
    reason = "of constants, the smaller from the greater"
)]

mod claims;
mod contents;
mod done;
mod groups;
mod keys;
mod kinds;
mod leases;
mod limits;
mod marks;
mod repeating;
mod texts;
mod urgent;

use std::time::Duration;

pub use claims::*;
pub use contents::*;
pub use done::*;
pub use groups::*;
pub use keys::*;
pub use kinds::*;
pub use leases::*;
pub use limits::*;
pub use marks::*;
pub use repeating::*;
pub use texts::*;
pub use urgent::*;

use durable_queue::store::{Act, Claim, Claimed, Lease, Settle, Store, Turn, Verdict};
use durable_queue::{JobId, Merge, NewJob, Put, Token, When};

/// A store under test, whose clock can be moved.
pub trait Fixture {
    /// The type of the store.
    type Store: Store;

    /// Returns the store, which is empty at first.
    fn store(&self) -> &Self::Store;

    /// Moves the store's clock forward. Otherwise the clock stands still, or advances negligibly. If the
    /// clock of a store cannot be moved, the fixture moves all stored times back instead.
    fn advance(&self, by: Duration);

    /// Returns another client of the same data, as another process has one.
    fn another(&self) -> Self::Store;
}

/// Generates the tests. In `conformance_tests!(make)`, `make()` returns a
/// [`Fixture`](crate::conformance::Fixture). In `conformance_tests!(if make())`, it returns an option: `None`
/// if a prerequisite such as a server is missing, which `make` has reported. `conformance_tests!(limits make)`
/// and `(limits if make())` generate the tests of [limits](durable_queue::Store::limit), for stores that support more
/// than the default.
#[macro_export]
macro_rules! conformance_tests {
    (limits if $make:expr) => {
        $crate::conformance_tests! { @limits ($make) }
    };
    (limits $make:expr) => {
        $crate::conformance_tests! { @limits (Some($make())) }
    };
    (@limits ($fixture:expr)) => {
        $crate::conformance_tests! { @each ($fixture)
            at_most_the_maximum_of_a_kind_is_held
            parked_jobs_hide_no_others
            a_parked_job_keeps_its_due_time
            each_end_of_a_lease_makes_room_for_a_job_of_its_kind
            a_released_job_of_a_full_kind_is_the_next_one
            a_claim_ahead_that_is_taken_makes_room
            a_job_claimed_ahead_holds_a_place_of_its_kind
            a_dead_holder_keeps_its_place_until_its_lease_ends
            an_expired_lease_is_valid_until_its_place_is_needed
            jobs_that_run_when_a_limit_is_set_count
            a_maximum_can_be_changed_while_jobs_run
            a_removed_limit_has_no_effect
            limits_are_listed_as_they_were_set
            urgent_parked_jobs_are_called_first
            a_called_job_is_called_once
            a_parked_job_can_be_cancelled_reset_and_merged
            a_cancelled_running_job_keeps_its_place
            a_redriven_job_is_limited_like_any_other
            a_rate_postpones_jobs_beyond_it
            a_claim_of_listed_kinds_takes_the_tokens_of_its_jobs_only
            a_limit_of_a_kind_that_is_not_listed_parks_nothing
            a_rate_that_is_set_again_has_no_more_tokens
            a_job_claimed_ahead_takes_a_token
            a_rate_and_a_maximum_of_a_kind_hold_at_the_same_time
            a_claim_of_a_full_kind_returns_the_next_token_of_its_rate
            a_free_place_is_announced_to_watches
            an_ordered_group_runs_its_jobs_one_after_another
            a_failed_job_of_an_ordered_group_is_not_overtaken
            each_end_of_a_job_gives_its_seat_to_the_next
            a_stale_settle_frees_no_seat
            a_repeating_job_of_an_ordered_group_is_overtaken_between_its_runs
            an_ordered_group_keeps_its_order_across_kinds
            an_urgent_job_that_is_due_later_takes_no_seat
            a_job_that_a_claim_calls_for_others_is_announced_to_watches
            at_most_the_maximum_of_a_group_is_held
            fair_groups_take_turns
            jobs_of_a_fair_group_run_at_the_same_time
            jobs_that_wait_for_their_group_hide_no_others
            a_job_that_waits_for_its_group_keeps_its_due_time
            a_job_that_is_taken_gives_its_seat_to_the_next
            a_dead_holder_keeps_its_seat
            urgent_jobs_of_a_group_are_called_first
            limits_of_groups_and_kinds_hold_at_the_same_time
            a_kind_with_a_maximum_of_zero_is_stopped
            jobs_that_run_when_the_rule_is_set_count
            the_rule_of_groups_can_be_changed
            a_dead_letter_keeps_its_group
            a_merge_moves_a_job_to_its_new_group
            a_free_seat_is_announced_to_watches
            no_more_than_the_seats_of_a_group_are_held_across_processes
            no_more_than_the_maximum_of_a_kind_run_across_processes
        }
    };
    (if $make:expr) => {
        $crate::conformance_tests! { @all ($make) }
    };
    ($make:expr) => {
        $crate::conformance_tests! { @all (Some($make())) }
    };
    (@all ($fixture:expr)) => {
        $crate::conformance_tests! { @each ($fixture)
            a_job_is_claimed_until_it_is_acknowledged
            a_job_of_a_dead_holder_is_claimed_again_when_the_lease_ends
            a_job_claimed_ahead_by_a_dead_holder_is_claimed_again
            a_claim_ahead_lasts_at_least_until_the_due_time
            held_by_finds_the_jobs_of_a_claim_whose_response_was_lost
            a_job_is_not_claimed_before_the_horizon
            a_job_is_not_started_before_its_due_time
            jobs_are_claimed_by_time_then_by_id
            jobs_with_expired_leases_are_claimed_in_order_with_others
            a_claim_takes_no_more_than_it_asks_for
            a_claim_ahead_leaves_room_for_due_jobs
            a_claim_returns_when_the_next_one_would_find_a_job
            a_turn_settles_the_last_batch_and_claims_the_next
            a_claim_takes_the_kinds_that_it_lists
            a_claim_takes_no_more_of_a_kind_than_it_has_room_for
            jobs_of_listed_kinds_are_claimed_in_the_order_of_all
            urgent_jobs_of_listed_kinds_come_first
            a_claim_ahead_takes_the_kinds_that_it_lists
            expired_leases_of_kinds_that_are_not_listed_stay
            a_claim_returns_when_the_next_job_of_its_kinds_is_due
            a_claim_returns_no_time_of_a_kind_that_it_has_filled
            a_merge_moves_a_job_to_its_new_kind
            many_jobs_of_other_kinds_hide_none
            any_name_of_a_kind_can_be_listed
            due_jobs_are_counted_by_kind
            delayed_jobs_do_not_hide_due_ones
            queues_are_independent
            a_stale_holder_changes_nothing
            an_expired_lease_is_valid_until_the_job_is_claimed
            a_live_lease_is_not_claimed_ahead
            an_extended_lease_ends_later
            a_repeated_start_counts_once
            a_job_that_was_not_started_cannot_be_settled
            a_successful_cancel_is_final
            a_cancel_takes_a_claim_ahead_from_its_holder
            an_unconfirmed_claim_ahead_counts_as_taken_from_its_due_time
            a_cancel_of_a_running_job_returns_taken
            a_cancel_of_a_missing_job_returns_never
            a_cancel_after_the_lease_fences_off_the_holder
            a_reset_makes_a_job_due_earlier_or_later
            a_reset_takes_a_claim_ahead_from_its_holder
            a_reset_of_a_running_job_returns_taken
            a_retried_job_is_due_at_its_new_time
            a_retry_that_does_not_count_takes_the_attempt_back
            a_released_job_is_as_if_it_had_not_been_claimed
            a_job_is_settled_once_per_turn
            a_buried_job_is_a_dead_letter_with_its_error
            a_rejected_job_is_a_dead_letter_without_the_attempt_of_its_claim
            a_redriven_job_is_due_at_once_without_attempts
            a_deleted_dead_letter_is_gone
            a_paused_queue_hands_out_nothing
            a_key_has_one_pending_job
            merge_policies_determine_the_due_time
            a_debounce_is_not_postponed_beyond_its_bound
            an_explicit_time_moves_the_bound_of_a_debounce
            a_merge_takes_a_claim_ahead_from_its_holder
            a_key_may_have_a_pending_job_during_a_run
            a_job_that_returns_while_its_key_has_an_open_job_stays_separate
            a_job_that_returns_is_open_if_no_other_of_its_key_is
            a_redrive_is_rejected_while_the_key_has_a_pending_job
            a_key_may_have_one_job_until_it_is_done
            a_key_may_have_one_job_while_it_is_kept
            a_cancel_by_key_prefers_the_open_job
            a_repeating_job_keeps_its_id
            only_the_holder_can_repeat_a_job
            a_job_without_a_schedule_does_not_repeat
            a_cancel_ends_a_repeating_job
            a_repeating_job_repeats_while_its_key_has_an_open_job
            a_repeating_push_changes_the_running_job_and_creates_none
            the_time_of_a_repeating_push_during_a_run_is_announced
            a_repeating_push_makes_a_waiting_job_due_earlier
            a_repeating_push_after_its_time_changes_no_job
            a_repeating_push_creates_a_job_next_to_a_running_one_without_a_schedule
            a_cancel_by_key_ends_all_schedules_of_the_key
            a_merge_replaces_the_schedule
            a_merge_with_a_schedule_ends_the_bound_of_a_debounce
            a_dead_letter_keeps_its_schedule
            a_redrive_of_a_repeating_job_is_rejected_while_another_of_its_key_runs
            a_job_returns_to_its_key_after_an_earlier_start_of_the_same_turn
            a_due_urgent_job_is_claimed_before_others
            a_claim_takes_no_more_urgent_jobs_than_it_asks_for
            urgency_does_not_make_a_claim_earlier
            a_claim_by_time_ignores_urgency
            a_merge_makes_the_pending_job_urgent
            a_finished_urgent_job_does_not_affect_the_next_of_its_key
            an_urgent_job_stays_urgent
            a_pause_applies_to_one_queue
            kind_and_options_are_kept_until_the_job_ends
            jobs_of_several_kinds_are_pushed_together
            a_merge_replaces_kind_and_options
            a_repeating_push_replaces_kind_and_options_of_the_running_job
            kinds_and_options_may_be_any_text
            a_job_keeps_the_history_of_its_failed_attempts
            a_dead_letter_keeps_the_history_of_its_failed_attempts
            a_cancel_marks_a_running_job
            a_marked_job_ends_when_its_holder_returns_it
            a_redriven_job_is_not_marked
            a_cancel_by_key_marks_all_running_jobs_of_the_key
            a_push_after_a_cancel_is_a_separate_job
            a_cancel_marks_an_unconfirmed_claim_ahead_from_its_due_time
            a_marked_job_of_a_dead_holder_is_claimed_again
            a_reset_removes_the_mark
            marks_are_announced_to_watches
            cancel_requests_are_limited
            a_kept_job_is_done_with_its_result
            a_job_that_is_not_kept_is_gone
            a_done_job_is_gone_when_its_time_is_over
            only_the_holder_can_keep_a_job
            results_are_kept_byte_for_byte
            a_marked_job_can_be_kept
            payloads_are_kept_byte_for_byte
            keys_and_names_may_be_arbitrary
            a_name_with_nul_is_valid_or_rejected_by_each_call
            the_results_of_a_batch_are_in_order
            an_empty_batch_has_no_effect
            extreme_times_are_kept
            a_push_is_announced_to_watches
            released_jobs_are_announced_to_watches
            jobs_taken_from_an_unconfirmed_holder_are_announced
            a_dropped_watch_is_not_called
            the_figures_are_correct
            a_list_is_in_the_order_of_claims_and_continues_after_its_last_entry
            a_list_shows_the_state_of_each_job
        }
    };
    (@each ($fixture:expr) $($promise:ident)*) => {
        $(
            #[test]
            fn $promise() {
                if let Some(fixture) = $fixture {
                    $crate::conformance::$promise(&fixture);
                }
            }
        )*
    };
}

/// Name of the queue of tests that use only one.
const QUEUE: &str = "queue";
const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(30);
const HORIZON: Duration = Duration::from_millis(500);

/// No handler has had the job.
const REJECT: Act<'static> = Act::Bury {
    error: "spent",
    failures: None,
    counts: false,
};

/// Returns a job with this payload.
fn job(payload: &[u8], when: impl Into<When>) -> NewJob<'_> {
    NewJob {
        payload,
        when: when.into(),
        key: None,
        group: None,
        merge: Merge::Keep,
        schedule: None,
        urgent: false,
        kind: None,
        options: None,
    }
}

/// Returns a job of this kind.
fn of_kind(kind: &str, when: impl Into<When>) -> NewJob<'_> {
    NewJob {
        kind: Some(kind),
        ..job(kind.as_bytes(), when)
    }
}

fn keyed<'a>(key: &'a str, payload: &'a [u8], when: impl Into<When>, merge: Merge) -> NewJob<'a> {
    NewJob {
        key: Some(key.as_bytes()),
        merge,
        ..job(payload, when)
    }
}

fn put<S: Store>(store: &S, jobs: &[NewJob<'_>]) -> Vec<Put> {
    store.enqueue(QUEUE, jobs).expect("the store takes jobs")
}

fn put_one<S: Store>(store: &S, job: NewJob<'_>) -> JobId {
    put(store, &[job])[0].id()
}

/// Returns a claim of up to `max` jobs, of which up to `start` are started.
fn claim_of(max: u32, start: u32) -> Claim<'static> {
    Claim {
        token: Token::random(),
        kinds: None,
        max,
        start,
        ahead: max,
        horizon: HORIZON,
        lease: LEASE,
        urgent_first: true,
    }
}

fn turn<S: Store>(store: &S, settle: &[Settle<'_>], claim: Option<Claim<'_>>) -> Turn {
    store
        .turn(QUEUE, settle, claim)
        .expect("the store takes turns")
}

fn claimed<S: Store>(store: &S, max: u32, start: u32) -> Claimed {
    let turn = turn(store, &[], Some(claim_of(max, start)));
    turn.claimed.expect("a claim was asked for")
}

/// Claims and starts up to ten jobs.
fn start<S: Store>(store: &S) -> Vec<Lease> {
    claimed(store, 10, 10)
        .leases
        .into_iter()
        .filter(|lease| lease.started)
        .collect()
}

fn start_one<S: Store>(store: &S) -> Lease {
    let mut leases = claimed(store, 1, 1).leases;
    assert_eq!(leases.len(), 1, "one job is due");
    let lease = leases.remove(0);
    assert!(lease.started);
    lease
}

/// Claims one job without starting it.
fn claim_ahead<S: Store>(store: &S) -> Lease {
    let mut leases = claimed(store, 1, 0).leases;
    assert_eq!(leases.len(), 1, "one job is within the horizon");
    leases.remove(0)
}

/// Claims up to `max` jobs without starting them, for a holder that does not confirm starts.
fn claim_unconfirmed<S: Store>(store: &S, max: u32) -> Vec<Lease> {
    let token = Token::random().without_confirmation();
    let claim = Claim {
        token,
        ..claim_of(max, 0)
    };
    let claimed = turn(store, &[], Some(claim)).claimed;
    claimed.expect("a claim was asked for").leases
}

fn settle<S: Store>(store: &S, lease: &Lease, act: Act<'_>) -> Verdict {
    let turn = turn(store, &[lease.settle(act)], None);
    assert_eq!(turn.verdicts.len(), 1);
    turn.verdicts[0]
}

fn ids(leases: &[Lease]) -> Vec<JobId> {
    leases.iter().map(|lease| lease.id).collect()
}
