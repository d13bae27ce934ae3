//! Permits: room is reserved first, and the task is submitted later. A permit has the id of its
//! task.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pool_core::{Permit, SubmitError};

use super::figures::{Expected, Patience};
use super::given::Given;
use super::job::Id;
use super::model::{Model, Waiter};
use super::patience::{Call, lock};
use super::program::Policy;
use super::subject::{Answer, How, Why, why};
use super::twinned::Twinned;
use super::walk::{Walk, pick};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Reserves room, on a thread of its own if the call may block.
    Reserve {
        how: How,
    },
    /// Reserves room as a future, which is polled once.
    ReserveAsync,
    Use {
        permit: usize,
        spawn: bool,
    },
    Drop {
        permit: usize,
    },
}

/// The object of a wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    Task { spawn: bool },
    Permit,
}

impl Model {
    /// A permit keeps a worker from expiring, and an observer cannot tell when that worker has
    /// parked. So programs reserve only in pools whose workers never expire, or which have core
    /// workers.
    fn may_reserve(&self) -> bool {
        self.settings.keep_alive.is_none() || self.settings.min_workers > 0
    }

    pub(super) fn kept_for_permits(&self) -> usize {
        usize::from(!self.permits.is_empty())
    }

    /// A thread that is not a worker, or a future, reserves room.
    fn reserve(&mut self, id: Id, patience: Patience) {
        self.know(id, Given::default());
        if !self.open {
            self.refuse(id, Why::Released);
        } else if self.has_room() {
            if !self.enter(|model| model.grant(id)) {
                self.refuse(id, Why::NoThread);
            }
        } else if matches!(patience, Patience::None)
            || self.line.len() >= self.settings.max_waiting.unwrap_or(usize::MAX)
        {
            self.refuse(id, Why::Full);
        } else {
            let deadline = match patience {
                Patience::Thread(timeout) => timeout.map(|timeout| self.now + timeout),
                _ => None,
            };
            self.line.push_back(Waiter {
                id,
                request: Request::Permit,
                deadline,
                is_future: matches!(patience, Patience::Future),
                within: None,
            });
        }
        self.settle();
    }

    pub(super) fn grant(&mut self, id: Id) {
        self.permits.insert(id);
        self.answers.push((id, Expected::Reserved));
    }

    /// The task takes over its permit's room, even in a full or released pool.
    fn redeem(&mut self, id: Id, spawn: bool) {
        self.permits.remove(&id);
        self.accept(id, spawn);
        self.rouse();
        self.permit_gone();
    }

    fn give_back(&mut self, id: Id) {
        self.permits.remove(&id);
        self.admit();
        self.rouse();
        self.permit_gone();
    }

    fn permit_gone(&mut self) {
        if !self.open {
            self.let_idle_go();
        }
        self.settle();
    }

    /// The idle workers of a released pool end, except one if a permit is in use.
    pub(super) fn let_idle_go(&mut self) {
        let above = self.live.saturating_sub(self.kept_for_permits());
        self.retire_oldest(above.min(self.idle.len()));
    }

    fn permits(&self) -> impl Iterator<Item = Id> {
        self.permits.iter().copied()
    }
}

/// Permits in use.
pub(super) type Permits<K> = Arc<Mutex<BTreeMap<Id, Permit<K>>>>;

fn keep<K: Twinned>(
    permits: &Permits<K>,
    id: Id,
    reserved: Result<Permit<K>, SubmitError>,
) -> Answer {
    match reserved {
        Ok(permit) => {
            lock(permits).insert(id, permit);
            Answer::Accepted(None)
        }
        Err(refused) => Answer::Refused(why(&refused), id),
    }
}

impl<K: Twinned> Walk<K> {
    pub(super) fn permit_step(&mut self, step: Step) {
        match step {
            Step::Reserve { .. } | Step::ReserveAsync if !self.model.may_reserve() => {}
            Step::Reserve { how } => self.reserve(how),
            Step::ReserveAsync => self.reserve_async(),
            Step::Use { permit, spawn } => {
                if let Some(id) = self.pick_permit(permit) {
                    self.use_permit(id, spawn);
                }
            }
            Step::Drop { permit } => {
                if let Some(id) = self.pick_permit(permit) {
                    self.drop_permit(id);
                }
            }
        }
    }

    fn reserve(&mut self, how: How) {
        let id = self.plan();
        let patience = match how {
            How::Try => Patience::None,
            How::Wait if self.settings.on_full == Policy::Refuse => Patience::None,
            // There is no task yet that the caller could run or the pool could discard.
            How::Wait => Patience::Thread(None),
            How::Timeout(timeout) => Patience::Thread(Some(timeout)),
        };
        self.model.reserve(id, patience);
        let (pool, permits) = (self.pool.clone(), Arc::clone(&self.permits));
        let answers = Arc::clone(&self.answers);
        let call = move || {
            let reserved = match how {
                How::Wait => pool.reserve(),
                How::Try => pool.try_reserve(),
                How::Timeout(timeout) => pool.reserve_timeout(timeout),
            };
            let answer = keep(&permits, id, reserved);
            lock(&answers).insert(id, answer);
        };
        match how {
            How::Try => call(),
            How::Wait | How::Timeout(_) => self.callers.push(Call::new(call)),
        }
    }

    fn reserve_async(&mut self) {
        let id = self.plan();
        self.model.reserve(id, Patience::Future);
        let (reserved, permits) = (self.pool.reserve_async(), Arc::clone(&self.permits));
        let future = async move { keep(&permits, id, reserved.await) };
        self.poll_first(id, Box::pin(future));
    }

    /// Creates a task for which room will be reserved.
    fn plan(&mut self) -> Id {
        let job = self.job();
        let id = self.last();
        self.planned.insert(id, job);
        id
    }

    fn use_permit(&mut self, id: Id, spawn: bool) {
        self.model.redeem(id, spawn);
        let job = self.planned.remove(&id).expect("it was planned");
        let permit = lock(&self.permits).remove(&id).expect("just picked");
        let answer = Answer::Accepted(K::redeem(permit, job, spawn));
        lock(&self.answers).insert(id, answer);
    }

    pub(super) fn drop_permit(&mut self, id: Id) {
        self.model.give_back(id);
        let permit = lock(&self.permits).remove(&id);
        drop(permit.expect("just picked"));
        self.planned.remove(&id);
        self.accepted[id as usize] = Some(false);
    }

    pub(super) fn pick_permit(&self, index: usize) -> Option<Id> {
        pick(self.model.permits(), index)
    }
}
