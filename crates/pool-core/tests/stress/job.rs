//! Tasks with a plan: their actions, their ends, and which of their parts panic when dropped.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use testkit::{PanicOnDrop, Rng};

use crate::caller;
use crate::ledger::{Ledger, Token};
use crate::port::Port;
use crate::subject::{How, is_asked};

/// The id of a task of a round.
pub(crate) type Id = usize;

/// The value of a task.
pub(crate) struct Out {
    pub(crate) id: Id,
    bomb: Option<PanicOnDrop>,
}

/// State that all tasks of a round share.
pub(crate) struct World {
    pub(crate) ledger: Ledger,
    /// The pool, as long as it has handles.
    pub(crate) port: OnceLock<Box<dyn Port>>,
    /// A task may wait for room: the pool runs its task in place, or refuses it.
    pub(crate) may_wait_within: bool,
    /// A pool without priorities refuses tasks that have one.
    pub(crate) has_priorities: bool,
    /// Failed expectations.
    pub(crate) complaints: Mutex<Vec<String>>,
}

/// A task. It is dropped exactly once, and runs at most once.
pub(crate) struct Job {
    token: Token,
    plan: Plan,
    world: Arc<World>,
    bomb: Option<PanicOnDrop>,
}

#[derive(Debug)]
pub(crate) struct Plan {
    /// How often the task yields.
    yields: usize,
    /// The task panics, with a payload that panics when dropped, this many levels deep.
    panics: Option<usize>,
    /// The task's capture panics when dropped.
    bomb: bool,
    /// The task's value panics when dropped.
    value_bomb: bool,
    /// The calls that the task makes itself.
    inner: Vec<(Call, Plan)>,
}

/// How a task is submitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) how: How,
    pub(crate) spawn: bool,
    pub(crate) then: Then,
}

/// The next call of the caller with the handle of a spawn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    Join,
    Await,
    Cancel,
    Detach,
}

impl Job {
    pub(crate) fn new(world: &Arc<World>, plan: Plan, spawned: bool) -> Self {
        Self {
            token: world.ledger.token(spawned),
            bomb: plan.bomb.then(PanicOnDrop::new),
            plan,
            world: Arc::clone(world),
        }
    }

    pub(crate) fn id(&self) -> Id {
        self.token.id()
    }

    pub(crate) fn run(mut self) -> Out {
        let id = self.id();
        if is_asked(id) {
            disarm(self.bomb.take());
            return Out { id, bomb: None };
        }
        let plan = &mut self.plan;
        // Without a handle, the value is dropped as part of the task.
        let dropped_here = plan.value_bomb && !self.token.is_spawned();
        let panics = plan.panics.is_some() || plan.bomb || dropped_here;
        self.token.runs(panics);
        for _ in 0..plan.yields {
            thread::yield_now();
        }
        for (call, plan) in plan.inner.drain(..) {
            caller::hand_within(&self.world, call, plan);
        }
        if let Some(levels) = plan.panics {
            resume_unwind(Box::new(PanicOnDrop::nested(levels)));
        }
        Out {
            id,
            bomb: plan.value_bomb.then(PanicOnDrop::new),
        }
    }
}

impl Out {
    /// The owner has the task, so it need not panic any more.
    pub(crate) fn take(mut self) -> Id {
        disarm(self.bomb.take());
        self.id
    }
}

fn disarm(bomb: Option<PanicOnDrop>) {
    std::mem::forget(bomb);
}

impl Plan {
    pub(crate) fn random(rng: &mut Rng, depth: usize, may_wait_within: bool) -> Self {
        let inner = if depth > 0 && rng.chance(4) {
            1 + rng.below(3)
        } else {
            0
        };
        Self {
            yields: if rng.chance(4) { rng.below(20) } else { 0 },
            panics: rng.chance(12).then(|| rng.below(4)),
            bomb: rng.chance(16),
            value_bomb: rng.chance(16),
            inner: (0..inner)
                .map(|_| {
                    let call = Call::random(rng, may_wait_within);
                    (call, Self::random(rng, depth - 1, may_wait_within))
                })
                .collect(),
        }
    }
}

impl How {
    fn random(rng: &mut Rng, may_wait: bool) -> Self {
        match rng.below(4) {
            0 | 1 if may_wait => Self::Wait,
            2 => Self::Timeout(Duration::from_micros(rng.below(400) as u64)),
            _ => Self::Try,
        }
    }
}

impl Call {
    pub(crate) fn random(rng: &mut Rng, may_wait: bool) -> Self {
        Self {
            how: How::random(rng, may_wait),
            spawn: rng.chance(2),
            then: match rng.below(6) {
                0..=2 => Then::Join,
                3 => Then::Await,
                4 => Then::Cancel,
                _ => Then::Detach,
            },
        }
    }
}
