//! Handle of a key's task. A cancel drops the captures but leaves the task in its lane, and a join
//! does not run the task in place, because either would break the key's order.

use std::sync::Arc;

use sync_shim::{Clock, Process};

use crate::engine::core::Core;
use crate::engine::runner::Runner;
use crate::sched::load::Outcome;
use crate::task::cell::SpawnCell;
use crate::task::closures::{Closures, Spawned};
use crate::task::handle::{PoolRef, RawHandle};
use crate::task::run::TaskContext;

/// Returns the job of a cell, and its handle.
pub(super) fn promise(core: &Arc<Core<Closures>>, cell: Arc<SpawnCell>) -> (Spawned, RawHandle) {
    let pool = Arc::new(InLane(Arc::clone(core)));
    (Spawned(Arc::clone(&cell)), RawHandle::new(cell, pool))
}

/// The pool as seen by the handle of a task in a lane.
struct InLane<R: Runner>(Arc<Core<R>>);

impl<R: Runner> PoolRef for InLane<R> {
    fn context(&self) -> &TaskContext {
        self.0.context()
    }

    fn clock(&self) -> &dyn Clock {
        PoolRef::clock(&*self.0)
    }

    fn is_own_worker(&self) -> bool {
        self.0.is_own_worker()
    }

    fn process(&self) -> Process {
        self.0.process()
    }

    // Earlier tasks of the key may be waiting or running, so the task must not run in place.
    fn may_nest(&self) -> bool {
        false
    }

    fn is_disposing(&self) -> bool {
        self.0.is_disposing()
    }

    fn nested(&self, run: &mut dyn FnMut() -> Outcome) -> Outcome {
        self.0.nested(run)
    }

    // The task keeps its place and its room; it is counted when its turn comes.
    fn withdraw(
        self: Arc<Self>,
        claim: &mut dyn FnMut() -> bool,
        end: &mut dyn FnMut() -> Outcome,
    ) -> bool {
        let ours = claim();
        if ours {
            end();
        }
        ours
    }
}
