//! Releasing with grace: what was accepted may go on for so long, and then the rest is given up.
//!
//! Not for: waiting for those that run when the grace is over. They are asked to stop, and end by
//! themselves; `wait_released` waits for them.
//!
//! # What always holds
//! 1. Nothing is taken out, and nothing asked to stop, before the grace is over.
//! 2. The section that does it finds the generation that was released, or leaves all as it is: what
//!    a rebooted pool has accepted is none of its affair.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::error::WaitError;
use crate::handle::PoolRef;
use crate::pool_kinds::{FuncPool, Pool};
use crate::runner::Runner;
use crate::wait_async::{Awaited, WaitFuture};

/// How a release with grace has ended; see [`Pool::release_with_grace`](crate::Pool::release_with_grace).
///
/// ```
/// use pool_core::Pool;
///
/// let pool = Pool::builder().capacity(2).build()?;
/// use pool_core::GraceEnd;
/// use std::time::Duration;
///
/// match pool.release_with_grace(Duration::from_secs(10))? {
///     GraceEnd::Ended => println!("everything has run"),
///     GraceEnd::CutShort(unstarted) => println!("{unstarted} tasks were dropped unrun"),
/// }
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraceEnd<T> {
    /// Every accepted task has run, and the pool has ended.
    Ended,
    /// The grace was over first. What had not started was taken out, as by a `release_now`: the
    /// number of those tasks, or what they were to run with. What runs was asked to stop.
    CutShort(T),
}

impl<T> GraceEnd<T> {
    /// The same end, with another form of what was taken out.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> GraceEnd<U> {
        match self {
            Self::Ended => GraceEnd::Ended,
            Self::CutShort(unstarted) => GraceEnd::CutShort(change(unstarted)),
        }
    }
}

impl<R: Runner> Core<R> {
    pub(crate) fn release_with_grace(
        self: &Arc<Self>,
        grace: Duration,
        keep: impl FnMut(R::Item),
    ) -> Result<GraceEnd<usize>, WaitError> {
        if self.is_forked() {
            return Err(WaitError::Forked); // The fork may have left the lock held.
        }
        let (_, generation) = self.release();
        let waited = self.wait_for_end(generation, self.clock().after(grace));
        self.after_grace(waited, generation, keep)
    }

    /// As a future. Calls `keep` in its last poll.
    async fn release_with_grace_async(
        self: Arc<Self>,
        grace: Duration,
        keep: impl FnMut(R::Item) + Send,
    ) -> Result<GraceEnd<usize>, WaitError> {
        if self.is_forked() {
            return Err(WaitError::Forked); // The fork may have left the lock held.
        }
        let (_, generation) = self.release();
        let deadline = self.clock().after(grace);
        let end = WaitFuture::new(Arc::clone(&self), Awaited::EndOf(generation), deadline);
        let waited = end.await;
        if deadline.is_some_and(|deadline| self.clock().now() < deadline) {
            // The clock has no thread to wake the future then: there was no grace.
            return waited.map(|()| GraceEnd::Ended);
        }
        self.after_grace(waited, generation, keep)
    }

    /// The end has come, or the grace is over.
    fn after_grace(
        self: &Arc<Self>,
        waited: Result<(), WaitError>,
        generation: u64,
        keep: impl FnMut(R::Item),
    ) -> Result<GraceEnd<usize>, WaitError> {
        match waited {
            Ok(()) => Ok(GraceEnd::Ended),
            Err(WaitError::TimedOut) => {
                let unstarted = self.release_now_of(generation, keep)?;
                Ok(GraceEnd::CutShort(unstarted))
            }
            Err(other) => Err(other),
        }
    }

    /// As [`release_now`](Core::release_now), unless the pool was rebooted since that generation.
    fn release_now_of(
        self: &Arc<Self>,
        generation: u64,
        keep: impl FnMut(R::Item),
    ) -> Result<usize, WaitError> {
        let jobs = self.section(|state, effects| {
            let is_ours = state.generation == generation;
            is_ours.then(|| self.take_unstarted(state, effects))
        });
        let jobs = jobs.ok_or(WaitError::Rebooted)?;
        Ok(self.dispose(jobs, keep))
    }
}

impl Pool {
    /// Releases, lets what was accepted go on for so long, by the pool's clock, and then does what
    /// [`release_now`](Self::release_now) does: drops what has not started, on this thread, and asks
    /// what runs to stop ([`current`](crate::current)`().is_cancelled()`). Says which of the two it
    /// came to.
    ///
    /// It does not wait for those that were asked: [`wait_released`](Self::wait_released) does.
    ///
    /// ```
    /// use pool_core::{GraceEnd, Pool, current};
    /// use std::time::Duration;
    ///
    /// let pool = Pool::builder().capacity(1).queue_depth(1).build()?;
    /// let (starts, started) = std::sync::mpsc::channel();
    /// pool.submit(move || {
    ///     starts.send(()).unwrap();
    ///     while !current().is_cancelled() {
    ///         std::thread::yield_now();
    ///     }
    /// })?;
    /// pool.submit(|| unreachable!("the worker has no end of the other until it is too late"))?;
    /// started.recv()?;
    /// let end = pool.release_with_grace(Duration::from_millis(1))?;
    /// assert_eq!(end, GraceEnd::CutShort(1));
    /// pool.wait_released()?; // The one that was asked has stopped.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`WouldDeadlock`](WaitError::WouldDeadlock) on an own worker,
    /// [`Rebooted`](WaitError::Rebooted) if a reboot came first,
    /// [`Forked`](WaitError::Forked) in a forked child. Nothing was taken out then; but for the last,
    /// the pool was released.
    #[doc(alias = "graceful_shutdown")]
    #[doc(alias = "shutdown_timeout")]
    pub fn release_with_grace(&self, grace: Duration) -> Result<GraceEnd<usize>, WaitError> {
        self.core().release_with_grace(grace, |()| {})
    }

    /// As [`release_with_grace`](Self::release_with_grace), as a future: releases at its first poll,
    /// from when the grace counts. What has not started by its end is dropped in a poll. Like
    /// [`wait_released_async`](Self::wait_released_async) it joins no threads. Pin it, to poll it by
    /// hand.
    ///
    /// Dropped before it is ready, it leaves the pool released, and gives nothing up.
    ///
    /// # Errors
    /// [`Rebooted`](WaitError::Rebooted), [`Forked`](WaitError::Forked) as there. And
    /// [`TimedOut`](WaitError::TimedOut) if the clock has no thread to wake the future when the grace
    /// is over: the pool is released, and nothing was taken out.
    pub fn release_with_grace_async(
        &self,
        grace: Duration,
    ) -> impl Future<Output = Result<GraceEnd<usize>, WaitError>> + Send + use<> {
        Arc::clone(self.core()).release_with_grace_async(grace, |()| {})
    }
}

impl<T: Send + 'static, R: Send + 'static> FuncPool<T, R> {
    /// Releases, lets what was accepted go on for so long, by the pool's clock, and then does what
    /// [`release_now`](Self::release_now) does: takes the arguments out that have not been called
    /// with, which come back, and asks the calls that run to stop. Does not wait for these.
    ///
    /// ```
    /// use pool_core::{FuncPool, GraceEnd, current};
    /// use std::time::Duration;
    ///
    /// let (starts, started) = std::sync::mpsc::channel();
    /// let pool = FuncPool::builder(move |n: u32| {
    ///     starts.send(n).unwrap();
    ///     while !current().is_cancelled() {
    ///         std::thread::yield_now();
    ///     }
    /// });
    /// let pool = pool.capacity(1).queue_depth(2).build()?;
    /// (0..3).try_for_each(|n| pool.submit(n))?;
    /// started.recv()?;
    /// let end = pool.release_with_grace(Duration::from_millis(1))?;
    /// assert_eq!(end, GraceEnd::CutShort(vec![1, 2]));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Pool::release_with_grace`].
    pub fn release_with_grace(&self, grace: Duration) -> Result<GraceEnd<Vec<T>>, WaitError> {
        let mut items = Vec::new();
        let keep = |item| items.push(item);
        let end = self.core().release_with_grace(grace, keep)?;
        Ok(end.map(|_| items))
    }

    /// As [`release_with_grace`](Self::release_with_grace), as a future: see
    /// [`Pool::release_with_grace_async`].
    ///
    /// # Errors
    /// As there.
    pub fn release_with_grace_async(
        &self,
        grace: Duration,
    ) -> impl Future<Output = Result<GraceEnd<Vec<T>>, WaitError>> + Send + use<T, R> {
        let core = Arc::clone(self.core());
        async move {
            let mut items = Vec::new();
            let keep = |item| items.push(item);
            let end = core.release_with_grace_async(grace, keep).await?;
            Ok(end.map(|_| items))
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use crate::{Pool, WaitError};

    #[testkit::test]
    fn a_grace_that_is_over_takes_nothing_out_of_a_pool_that_was_rebooted_meanwhile() {
        let pool = Pool::builder().capacity(1).start_paused(true).build();
        let pool = pool.expect("the settings are sound");
        let (_, generation) = pool.core().release();
        pool.reboot();
        pool.pause();
        let task = pool.spawn(|| 7).expect("it is open again");
        let cut = pool.core().release_now_of(generation, |()| {});
        assert_eq!(cut, Err(WaitError::Rebooted));
        assert!(!pool.is_released() && pool.queued() == 1);
        pool.resume();
        assert_eq!(task.join().expect("it runs"), 7);
    }
}
