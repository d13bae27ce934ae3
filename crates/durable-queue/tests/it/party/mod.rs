//! Several processes on a store that fails at every point, with random programs of all calls. No answered
//! push is lost, no job is early, no acknowledged or cancelled job is handed out again, and no job has two
//! holders.
//!
//! A seed reproduces the programs and the faults, but not the races.

mod clients;
mod ledger;
mod program;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use durable_queue::ErrorKind;
use durable_queue_testing::{Call, Fault};
use testkit::Rng;

use self::program::{Fate, Op, Program};
use self::world::{FOR_EVER, Process, Setup, World};
use crate::support::{SECOND, bounded};

/// All kinds of failures.
const FAULTS: [Fault; 5] = [
    Fault::Before,
    Fault::After,
    Fault::Twice,
    Fault::Unheard,
    Fault::Refused(ErrorKind::Busy),
];

/// This many turns are lost, so that a pump asks for its jobs.
const LOST: usize = 12;

/// More calls than the program makes.
const MOST_POINTS: usize = 80;

/// All calls that change something, or that a pump makes.
const CALLS: [Call; 8] = [
    Call::Enqueue,
    Call::Turn,
    Call::Cancel,
    Call::Reset,
    Call::HeldBy,
    Call::Watch,
    Call::Pause,
    Call::Redrive,
];

/// Three processes, four takers, and two parties that push, cancel, reset, pause and redrive.
#[test]
fn random_programs_on_a_store_that_fails_at_random_neither_lose_nor_duplicate_jobs() {
    const RUNS: usize = 40;
    let mut rng = Rng::from_env();
    for number in 0..RUNS {
        let setup = Setup::random(&mut rng);
        let programs = (0..2).map(|_| Program::random(&mut rng)).collect();
        let mut random = rng.split();
        let doubles = rng.chance(3);
        // From one call in two to one in twelve.
        let seldom = 2 + rng.below(11);
        let plan = move |_| {
            if !random.chance(seldom) {
                return Fault::None;
            }
            match FAULTS[random.below(FAULTS.len())] {
                // Double calls leave batches without a known holder. Other faults must not.
                Fault::Twice if !doubles => Fault::None,
                fault => fault,
            }
        };
        let faults = run(World::new(&setup, plan), programs, rng.split());
        assert!(faults.is_empty(), "run {number} of {setup:#?}: {faults:#?}");
    }
}

/// Each run has a watchdog of its own: on a busy machine all of them take longer than its limit.
fn run(world: World, programs: Vec<Program>, rng: Rng) -> Vec<String> {
    bounded(|| world.run(programs, rng))
}

/// A program with each kind of call, and jobs with each outcome.
fn fixed() -> Program {
    use Fate::{Ack, AckLater, AckWithNext, Bury, Drop, ExtendAndAck, Panic, Retry, RetryAt};
    let push = |fate| Op::Push {
        delay: SECOND,
        urgent: false,
        fate,
    };
    Program(vec![
        push(Ack),
        Op::Batch {
            delays: vec![SECOND / 2, SECOND * 2],
            fate: AckWithNext,
        },
        push(Retry),
        Op::keyed(0, SECOND * 9),
        Op::keyed(0, SECOND),
        Op::keyed(1, SECOND * 1_000),
        Op::ResetKey(1, SECOND * 3),
        Op::keyed(2, SECOND * 1_000),
        Op::CancelKey(2),
        Op::Repeating(0),
        push(Bury),
        push(Drop),
        push(Panic),
        Op::Pause,
        push(RetryAt),
        push(ExtendAndAck),
        Op::Resume,
        Op::Push {
            delay: SECOND / 4,
            urgent: true,
            fate: AckLater,
        },
        Op::Wait(SECOND * 3),
        Op::Redrive,
        Op::Push {
            delay: SECOND / 4,
            urgent: false,
            fate: Ack,
        },
        Op::WaitForClaim,
        Op::CancelSome(0),
        Op::Push {
            delay: SECOND / 4,
            urgent: false,
            fate: Ack,
        },
        Op::WaitForClaim,
        Op::ResetSome(0, SECOND),
    ])
}

/// Two processes. The n-th call of each kind fails in each way, for each n. On a busy machine the pumps may
/// make many more turns than necessary.
#[test]
fn a_failure_of_any_call_at_any_point_neither_loses_nor_duplicates_jobs() {
    for call in CALLS {
        let mut points = 0;
        for (index, fault) in FAULTS.into_iter().enumerate() {
            // Alternately with and without confirmation.
            let fails = |nth: &usize| fails_at((nth + index).is_multiple_of(2), call, *nth, fault);
            points += (0..MOST_POINTS).take_while(fails).count();
        }
        assert!(points > 0, "{call:?} is never called");
    }
}

/// Returns whether there was such a call.
fn fails_at(confirm: bool, call: Call, nth: usize, fault: Fault) -> bool {
    let process = Process::new(confirm, FOR_EVER, 1);
    let setup = Setup {
        processes: vec![process.clone(), process],
        max_attempts: 3,
        ordered: nth.is_multiple_of(2),
    };
    let count = Arc::new(AtomicUsize::new(0));
    let plan = {
        let count = Arc::clone(&count);
        let mut lost = 0;
        move |met| {
            // Relaxed: a call follows those before it.
            if met == call && count.fetch_add(1, Relaxed) == nth {
                return fault;
            }
            // Otherwise no pump asks for the jobs of a claim. A turn with a claim is among them.
            if call == Call::HeldBy && met == Call::Turn && lost < nth + LOST {
                lost += 1;
                return Fault::After;
            }
            Fault::None
        }
    };
    let faults = run(
        World::new(&setup, plan),
        vec![fixed()],
        Rng::new(nth as u64),
    );
    assert!(
        faults.is_empty(),
        "{fault:?} at {call:?} {nth}, confirm {confirm}: {faults:#?}"
    );
    count.load(Relaxed) > nth
}
