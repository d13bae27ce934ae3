//! Admission to the first pool that has room, and operations on all pools.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use pool_core::internals::{
    Admit, Awaited, Disposal, PoolHandle, RawHandle, Target, TaskContext, WaitLimits,
};
use pool_core::{Cancelled, Capacity, Clock, OnFull, Stats, SubmitError, Task, TuneError};

use crate::error::MultiWaitError;
use crate::room_future::RoomFuture;
use crate::shared::Shared;
use crate::submit_future::SubmitFuture;

impl Admit for Shared {
    type Future = SubmitFuture;
    type RoomFuture = RoomFuture;
    type WaitError = MultiWaitError;

    fn pool_handle(self: &Arc<Self>) -> PoolHandle {
        self.first().clone()
    }

    /// Always `Ok`: each pool checks when a task is offered to it.
    fn refuses(&self, _on_full: OnFull) -> Result<(), SubmitError> {
        Ok(())
    }

    #[inline]
    fn context(&self) -> &TaskContext {
        self.first().context()
    }

    fn recorded(&self, job: Task) -> Task {
        self.first().recorded(job)
    }

    fn has_priorities(&self) -> bool {
        self.first().admit().has_priorities()
    }

    fn members(&self) -> &[PoolHandle] {
        &self.members
    }

    #[inline]
    fn target(&self, choice: &mut Option<usize>) -> Target<'_> {
        let first = self.first();
        // In a forked child no strategy is asked. The first pool refuses.
        if !first.process().is_current() {
            return first.target();
        }
        let member = self.choose();
        *choice = Some(member);
        self.members[member].target()
    }

    fn admit_chosen(
        self: &Arc<Self>,
        choice: Option<usize>,
        job: &mut Option<Task>,
        on_full: OnFull,
        limits: Option<&WaitLimits<'_>>,
    ) -> Result<usize, SubmitError> {
        let offered = job.take().expect("a job is accepted once");
        let submitted = self.submit(choice, offered, on_full, limits);
        submitted.map_err(|refused| {
            let (reason, refused) = refused.into_parts();
            *job = Some(refused);
            reason
        })
    }

    fn count_unoffered(&self) {
        let _refusal = self.count_refusal(SubmitError::Cancelled(()));
    }

    fn admit_async(self: Arc<Self>, job: Task, cancelled: Option<Cancelled>) -> SubmitFuture {
        SubmitFuture::new(self, job, cancelled)
    }

    fn give_up(wait: &mut SubmitFuture) -> Option<usize> {
        wait.give_up()
    }

    fn set_pool(&self, pool: usize, handle: &mut RawHandle) {
        if pool > 0 {
            self.members[pool].adopt(handle);
        }
    }

    fn reserve_room(self: &Arc<Self>, on_full: OnFull) -> Result<PoolHandle, SubmitError> {
        let pool = self.reserve(on_full)?;
        Ok(self.members[pool].clone())
    }

    fn reserve_room_async(self: Arc<Self>) -> RoomFuture {
        RoomFuture::new(self)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn on_full(&self) -> OnFull {
        self.first().on_full()
    }

    fn clock(&self) -> &dyn Clock {
        &**self.first().clock()
    }

    fn is_own_worker(&self) -> bool {
        self.first().is_own_worker()
    }

    fn stats(self: &Arc<Self>) -> Stats {
        let sum = self
            .members
            .iter()
            .map(PoolHandle::stats)
            .reduce(Stats::plus);
        let mut stats = sum.expect("there is at least one pool");
        stats.waiting = self.waiter_count.len();
        stats.refused += self.refused();
        stats
    }

    fn sum(self: &Arc<Self>, figure: fn(&PoolHandle) -> usize) -> usize {
        self.members.iter().map(figure).sum()
    }

    fn waiting(self: &Arc<Self>) -> usize {
        self.waiter_count.len()
    }

    fn capacity(self: &Arc<Self>) -> Capacity {
        let each = self.members.iter().map(PoolHandle::capacity);
        each.fold(Capacity::Limited(0), Capacity::plus)
    }

    fn free(self: &Arc<Self>) -> Option<usize> {
        let mut each = self.members.iter();
        each.try_fold(0_usize, |sum, pool| Some(sum.saturating_add(pool.free()?)))
    }

    fn is_released(&self) -> bool {
        let _alike = self.lifecycle_lock.lock();
        self.first().is_released()
    }

    fn is_paused(&self) -> bool {
        self.first().is_paused()
    }

    fn pause(self: &Arc<Self>) -> bool {
        self.pause_all()
    }

    fn resume(self: &Arc<Self>) -> bool {
        self.resume_all()
    }

    fn tune(self: &Arc<Self>, capacity: Capacity) -> Result<(), TuneError> {
        self.tune_all(capacity)
    }

    fn release(self: &Arc<Self>) -> bool {
        self.release_all().0
    }

    fn release_now(self: &Arc<Self>, end: Disposal<'_>) -> usize {
        self.release_all_now(end)
    }

    fn reboot(self: &Arc<Self>) -> bool {
        self.reboot_all()
    }

    fn wait(
        self: &Arc<Self>,
        awaited: Awaited,
        deadline: Option<Instant>,
    ) -> Result<(), MultiWaitError> {
        match self.generations_of(awaited) {
            None => self.wait_idle(deadline),
            Some(generations) => self.wait_for_end(&generations, deadline),
        }
    }

    fn wait_async(
        self: Arc<Self>,
        awaited: Awaited,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<(), MultiWaitError>> + Send + Unpin + use<> {
        Box::pin(async move {
            match self.generations_of(awaited) {
                None => self.wait_idle_async().await,
                Some(generations) => self.wait_for_end_async(generations, deadline).await,
            }
        })
    }

    fn end(self: &Arc<Self>) {
        if self.first().process().is_current() {
            self.release_all();
        }
        self.members.iter().for_each(PoolHandle::end);
    }
}
