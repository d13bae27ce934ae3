//! The calls of a round, from its own threads and from tasks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use pool_core::{JoinError, Priority, WorkerPool};
use testkit::{Rng, block_on};

use crate::job::{Call, Id, Job, Out, Plan, Then, World};
use crate::ledger::Said;
use crate::limits::taking_out;
use crate::port::Port;
use crate::subject::{Answer, Handle, How, Kind, Options, identify};

/// The maximum nesting of tasks that submit tasks.
const DEPTH: usize = 3;

/// Makes one call on a thread that is not a worker.
pub(crate) fn hand<K: Kind>(world: &Arc<World>, pool: &WorkerPool<K>, rng: &mut Rng) {
    let call = Call::random(rng, true);
    let plan = Plan::random(rng, DEPTH, world.may_wait_within);
    let job = Job::new(world, plan, call.spawn);
    let id = job.id();
    if rng.chance(3) {
        return hand_async(world, pool, job, call, rng);
    }
    let answer = if call.spawn {
        K::spawn(pool, job, call.how, options(world, rng))
    } else {
        K::submit(pool, job, call.how, options(world, rng))
    };
    if let Some(handle) = hear(world, id, answer) {
        conclude(world, id, handle, call.then, false);
    }
}

fn options(world: &World, rng: &mut Rng) -> Option<Options> {
    rng.chance(3).then(|| Options {
        priority: match rng.below(3) {
            0 if world.has_priorities => Priority::High,
            1 if world.has_priorities => Priority::Low,
            _ => Priority::Normal,
        },
        token: None,
        start_before: None,
    })
}

fn hand_async<K: Kind>(
    world: &Arc<World>,
    pool: &WorkerPool<K>,
    job: Job,
    call: Call,
    rng: &mut Rng,
) {
    let id = job.id();
    let mut future = if call.spawn {
        K::spawn_async(pool, job, options(world, rng))
    } else {
        K::submit_async(pool, job, options(world, rng))
    };
    let mut answer = None;
    let goes_on = rng.chance(2);
    if !rng.chance(8) {
        let mut context = Context::from_waker(Waker::noop());
        match future.as_mut().poll(&mut context) {
            Poll::Ready(ready) => answer = Some(ready),
            Poll::Pending if goes_on => {}
            Poll::Pending => world.ledger.say(id, Said::Dropped),
        }
        (0..rng.below(30)).for_each(|_| thread::yield_now());
    }
    if goes_on && answer.is_none() {
        answer = Some(block_on(future));
    } else {
        drop_anyhow(future);
    }
    if let Some(answer) = answer
        && let Some(handle) = hear(world, id, answer)
    {
        conclude(world, id, handle, call.then, false);
    }
}

/// Makes one call inside a task.
pub(crate) fn hand_within(world: &Arc<World>, mut call: Call, plan: Plan) {
    let job = Job::new(world, plan, call.spawn);
    let id = job.id();
    if !world.may_wait_within && matches!(call.how, How::Wait) {
        call.how = How::Try;
    }
    if matches!(call.then, Then::Await) {
        call.then = Then::Join; // An await does not run the task in place.
    }
    let port: &dyn Port = &**world.port.get().expect("set before the first task");
    match port.hand(job, call.how, call.spawn) {
        Ok(answer) => {
            if let Some(handle) = hear(world, id, answer) {
                conclude(world, id, handle, call.then, true);
            }
        }
        Err(job) => _ = identify(|| job.run()), // The pool has no handle any more.
    }
}

/// Records an answer in the ledger.
fn hear(world: &World, id: Id, answer: Answer) -> Option<Handle> {
    match answer {
        Answer::Accepted(handle) => {
            world.ledger.say(id, Said::Accepted);
            handle
        }
        Answer::Refused(why, back) => {
            world.ledger.say(id, Said::Refused);
            world.expect(back == id, || {
                format!("{back} was returned for {id}: {why:?}")
            });
            None
        }
    }
}

fn conclude(world: &World, id: Id, handle: Handle, then: Then, within: bool) {
    let mut cancelled = false;
    let joined = match then {
        Then::Join if within => taking_out(1, || handle.join()),
        Then::Join => handle.join(),
        Then::Await => block_on(handle),
        Then::Cancel => {
            cancelled = taking_out(1, || handle.cancel());
            if cancelled {
                world.ledger.say(id, Said::Cancelled);
            }
            handle.join()
        }
        Then::Detach => return drop_anyhow(handle),
    };
    let right = match joined.map(Out::take) {
        Ok(value) => value == id && !cancelled,
        Err(JoinError::Panicked(panicked)) => {
            drop_anyhow(panicked.into_payload());
            !cancelled
        }
        Err(JoinError::Cancelled) => cancelled,
        Err(JoinError::Released) => !cancelled,
        Err(JoinError::WouldDeadlock) => within, // At the nesting limit.
        Err(_) => false,
    };
    world.expect(right, || {
        format!("the join of {id} (cancelled: {cancelled}) returned another outcome")
    });
}

/// Drops a value whose destructor may panic, on its owner's thread.
pub(crate) fn drop_anyhow<T>(value: T) {
    let mut dropped = catch_unwind(AssertUnwindSafe(|| drop(value)));
    while let Err(payload) = dropped {
        dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    }
}
