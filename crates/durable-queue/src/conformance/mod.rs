//! The tests that every store has to pass: the requirements of [`Store`], one by one.
//!
//! A store's crate implements [`Fixture`] and invokes the macro in a test module:
//!
//! ```ignore
//! durable_queue::conformance_tests!(MyFixture::new);
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
mod keys;
mod leases;
mod repeating;
mod serial;
mod urgent;

use std::time::Duration;

pub use claims::*;
pub use contents::*;
pub use keys::*;
pub use leases::*;
pub use repeating::*;
pub use serial::*;
pub use urgent::*;

use crate::job::{JobId, Merge, NewJob, Put, Token};
use crate::store::{Act, Claim, Claimed, Lease, Settle, Store, Turn, Verdict};
use crate::time::When;

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
/// if a prerequisite such as a server is missing, which `make` has reported.
#[macro_export]
macro_rules! conformance_tests {
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
            a_claim_ahead_lasts_until_the_time_of_the_job_at_least
            a_claimer_that_lost_the_answer_finds_what_it_holds
            a_job_is_not_claimed_earlier_than_the_horizon_before_its_time
            a_job_is_not_started_before_its_time
            jobs_are_claimed_by_time_and_then_in_the_order_of_their_ids
            what_a_lease_has_held_is_claimed_in_the_order_of_all
            a_claim_takes_no_more_than_it_asks_for
            a_claim_ahead_leaves_room_for_what_is_due
            a_claim_says_when_the_next_one_would_find_something
            a_turn_settles_the_last_batch_and_claims_the_next
            delayed_jobs_in_front_hide_nothing_that_is_due
            queues_do_not_see_each_other
            a_holder_that_lost_its_lease_changes_nothing
            a_lease_that_ended_unclaimed_is_still_good
            a_lease_that_lives_is_not_claimed_ahead
            a_lease_that_is_extended_ends_later
            a_start_asked_for_twice_counts_once
            a_job_that_was_not_started_cannot_be_settled
            a_cancel_that_wins_is_final
            a_cancel_takes_a_claim_ahead_from_its_holder
            a_job_counts_as_taken_from_its_time_on_if_its_holder_does_not_confirm
            a_cancel_of_what_a_handler_has_says_so
            a_cancel_of_what_is_not_there_says_so
            a_cancel_after_the_lease_has_ended_fences_the_holder_off
            a_reset_moves_a_job_either_way
            a_reset_takes_a_claim_ahead_from_its_holder
            a_reset_of_what_a_handler_has_says_so
            a_retried_job_comes_again_at_its_new_time
            a_released_job_is_as_if_it_had_not_been_claimed
            a_job_is_settled_once_in_a_turn
            a_buried_job_is_a_dead_letter_with_its_error
            a_rejected_job_is_a_dead_letter_without_the_attempt_of_its_claim
            a_redriven_job_is_due_at_once_and_new
            a_deleted_dead_letter_is_gone
            a_paused_queue_hands_out_nothing
            a_key_is_pending_once
            the_policies_say_which_time_counts
            a_debounce_is_not_put_off_beyond_its_bound
            a_time_that_is_asked_for_moves_the_bound_of_a_debounce
            a_merge_takes_a_claim_ahead_from_its_holder
            a_key_that_runs_may_be_pending_beside
            a_job_that_comes_back_beside_an_open_one_of_its_key_stays_a_job_of_its_own
            a_job_that_comes_back_alone_is_open_again
            a_redrive_beside_a_pending_job_of_its_key_is_refused
            a_cancel_by_key_means_the_open_job
            a_job_that_repeats_comes_again_under_its_id
            a_repetition_is_the_holders_alone
            a_job_without_a_schedule_does_not_come_again
            a_cancel_of_a_job_that_repeats_ends_it
            a_job_that_repeats_goes_on_beside_an_open_one_of_its_key
            a_push_that_repeats_changes_the_job_that_runs_and_adds_none
            a_push_that_repeats_and_comes_after_its_time_changes_no_job
            a_push_that_repeats_adds_a_job_beside_one_that_runs_once
            a_cancel_by_key_ends_all_schedules_of_the_key
            a_merge_replaces_the_schedule_by_its_own
            a_merge_with_a_schedule_ends_the_bound_of_a_debounce
            a_dead_letter_keeps_its_schedule
            a_job_goes_back_to_its_key_after_a_start_that_comes_before_it
            an_urgent_job_that_is_due_is_claimed_before_others
            urgent_jobs_are_claimed_no_more_than_a_claim_asks_for
            an_urgent_job_is_claimed_no_earlier_for_it
            a_claim_by_time_takes_urgent_jobs_in_their_turn
            a_merge_makes_the_pending_job_urgent
            a_job_that_is_done_leaves_its_urgency_to_none
            an_urgent_job_stays_so
            a_job_whose_key_is_held_waits
            a_job_that_waited_for_its_key_has_its_own_time
            each_end_of_a_job_frees_its_key
            a_job_that_comes_back_is_not_overtaken_by_the_next_one_of_its_key
            a_cancel_of_a_job_that_waits_frees_its_key
            a_cancel_beside_a_job_that_runs_leaves_it_its_lease
            a_turn_that_frees_a_key_claims_what_waited_for_it
            a_settle_that_is_too_late_hinders_no_other_job_of_its_key
            a_lease_that_is_extended_keeps_its_key
            a_dead_holder_keeps_its_key_until_its_lease_ends
            a_job_that_comes_back_waits_for_another_one_of_its_key_that_runs
            a_claim_fences_off_who_held_another_job_of_the_key
            a_lease_that_ended_unclaimed_is_still_good_for_its_key
            a_job_that_is_claimed_ahead_holds_its_key
            what_waits_for_its_key_hides_nothing
            a_claim_says_when_a_key_is_free_at_the_latest
            a_key_that_is_free_again_is_announced_to_watches
            keys_are_serial_until_that_is_taken_back
            one_job_of_a_key_runs_whoever_claims_it
            a_pause_and_serial_keys_concern_one_queue
            payloads_are_kept_byte_for_byte
            keys_and_names_are_what_they_are
            a_name_with_a_nul_is_one_like_others_or_is_refused_by_each_call
            a_batch_is_answered_in_its_order
            an_empty_batch_is_nothing
            extreme_times_are_kept
            a_push_is_announced_to_watches
            what_is_given_back_is_announced_to_watches
            what_is_taken_from_a_holder_that_does_not_confirm_is_announced
            a_dropped_watch_is_not_called
            the_figures_are_right
            a_list_is_in_the_order_of_claims_and_goes_on_where_it_ended
            a_list_says_how_each_job_stands
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

/// Returns a job with this payload.
fn job(payload: &[u8], when: impl Into<When>) -> NewJob<'_> {
    NewJob::plain(payload, when.into())
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
fn claim_of(max: u32, start: u32) -> Claim {
    Claim {
        token: Token::random(),
        max,
        start,
        ahead: max,
        horizon: HORIZON,
        lease: LEASE,
        urgent_first: true,
    }
}

fn turn<S: Store>(store: &S, settle: &[Settle<'_>], claim: Option<Claim>) -> Turn {
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
