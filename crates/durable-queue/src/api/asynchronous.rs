//! The calls of a queue as futures. Each is the blocking call, made by a call thread, or a push that shares a
//! leader's call.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use sync_shim::foreign::drop_quietly;
use sync_shim::waiter::Waiter;
use sync_shim::{Clock, Deadline, Timeout};

use crate::api::batch::Push;
use crate::api::queue::{CancelError, DurableQueue, ShutDown, cancelled, encoded};
use crate::engine::combine::{Combiner, Pushes};
use crate::engine::control::Control;
use crate::engine::pump::called;
use crate::engine::shared::Shared;
use crate::error::{ErrorKind, PushError, StoreError};
use crate::store::job::{Cancelled, JobId, Merge, NewJob, OwnedJob, Put, Reset, Which};
use crate::store::limit::Limit;
use crate::store::payload::Payload;
use crate::store::time::{StoreTime, When};
use crate::store::{DeadJob, ListedJob, Result, Store, StoreStats};
use crate::threads::call::{CallFuture, call_on, refused};
use crate::threads::reply::Reply;

type PushFuture<R, V> = CallFuture<Result<R, PushError<V>>>;

impl<T: Payload, S: Store> DurableQueue<T, S> {
    /// Async version of [`push`](Self::push). Needs no runtime. The value is encoded by this call, and the job is
    /// pushed after the future is first polled. Pushes of any number of tasks and threads share calls of the
    /// store. See [`CallFuture`] for what happens if the future is dropped.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use durable_queue::{DurableQueue, JobId, PushError, Store};
    /// # async fn signed_up<S: Store>(mails: &DurableQueue<String, S>) -> Result<JobId, PushError<String>> {
    /// mails.push_async("welcome".to_owned(), Duration::from_secs(60)).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store's error, with the value. [`ErrorKind::NoThread`] if no thread could be started for the call.
    pub fn push_async(&self, value: T, when: impl Into<When>) -> PushFuture<JobId, T> {
        let job = self.owned(&value, NewJob::plain(&[], when.into()));
        let shared = Arc::clone(self.shared());
        pushed(
            value,
            async move { Ok(shared.enter_async(job?).await?.id()) },
        )
    }

    /// Async version of [`push_keyed`](Self::push_keyed): see [`push_async`](Self::push_async). Jobs with keys do
    /// not share calls of the store, of which at most [`CALL_THREADS`](crate::internals::CALL_THREADS) are in progress.
    ///
    /// # Errors
    /// As for [`push_async`](Self::push_async).
    pub fn push_keyed_async(
        &self,
        key: impl AsRef<[u8]>,
        value: T,
        when: impl Into<When>,
        merge: Merge,
    ) -> PushFuture<Put, T> {
        let job = NewJob {
            key: Some(key.as_ref()),
            merge,
            ..NewJob::plain(&[], when.into())
        };
        let job = self.owned(&value, job);
        let shared = Arc::clone(self.shared());
        pushed(value, async move { shared.enter_async(job?).await })
    }

    /// Async version of [`push_repeating`](Self::push_repeating): see [`push_async`](Self::push_async).
    ///
    /// # Errors
    /// As for [`push_repeating`](Self::push_repeating) and [`push_async`](Self::push_async).
    #[cfg(feature = "cron")]
    pub fn push_repeating_async(
        &self,
        key: impl AsRef<[u8]>,
        schedule: &crate::store::schedule::Schedule,
        value: T,
    ) -> PushFuture<Put, T> {
        let job = self.owned(&value, NewJob::repeating(&[], key.as_ref(), schedule));
        let (shared, schedule) = (Arc::clone(self.shared()), schedule.clone());
        pushed(value, async move {
            let job = job?;
            shared
                .call(move |shared| shared.enter_repeating(&schedule, job.as_new()))
                .await
        })
    }

    /// Async version of [`push_many`](Self::push_many): see [`push_async`](Self::push_async).
    ///
    /// # Errors
    /// The error of [`push_async`](Self::push_async), with the jobs.
    pub fn push_many_async(&self, jobs: Vec<Push<T>>) -> PushFuture<Vec<Put>, Vec<Push<T>>> {
        let owned = jobs.iter().map(|job| {
            let (value, job) = job.parts();
            self.owned(value, job)
        });
        let owned: Result<Vec<_>> = owned.collect();
        let shared = Arc::clone(self.shared());
        pushed(jobs, async move {
            let owned = owned?;
            shared
                .call(move |shared| {
                    let jobs: Vec<_> = owned.iter().map(OwnedJob::as_new).collect();
                    shared.enter_many(&jobs)
                })
                .await
        })
    }

    /// Encodes the value, on the caller's thread.
    fn owned(&self, value: &T, job: NewJob<'_>) -> Result<OwnedJob> {
        let payload = encoded(value)?.into_owned();
        let job = self.marks.mark(job);
        let options = self.options(job.options);
        let options = options.as_deref();
        Ok(OwnedJob::with_payload(payload, NewJob { options, ..job }))
    }

    /// Async version of [`cancel`](Self::cancel): see [`CallFuture`].
    ///
    /// # Errors
    /// As for [`cancel`](Self::cancel). [`ErrorKind::NoThread`] if no thread could be started for the call.
    pub fn cancel_async<'a>(
        &self,
        which: impl Into<Which<'a>>,
    ) -> CallFuture<Result<Cancelled<T>, CancelError>> {
        let which = OwnedWhich::of(which.into());
        let call =
            self.call(move |Shared { store, name, .. }| store.cancel(name, which.as_which()));
        CallFuture::new(async move { cancelled(call.await) })
    }

    /// Async version of [`reset`](Self::reset): see [`CallFuture`].
    ///
    /// # Errors
    /// The store's error. [`ErrorKind::NoThread`] if no thread could be started for the call.
    pub fn reset_async<'a>(
        &self,
        which: impl Into<Which<'a>>,
        when: impl Into<When>,
    ) -> CallFuture<Result<Reset>> {
        let (which, when) = (OwnedWhich::of(which.into()), when.into());
        self.call(move |Shared { store, name, .. }| store.reset(name, which.as_which(), when))
    }

    /// Async version of [`pause`](Self::pause): see [`CallFuture`].
    ///
    /// # Errors
    /// As for [`reset_async`](Self::reset_async).
    pub fn pause_async(&self, paused: bool) -> CallFuture<Result<()>> {
        self.call(move |Shared { store, name, .. }| store.pause(name, paused))
    }

    /// Async version of [`limit`](Self::limit): see [`CallFuture`].
    ///
    /// # Errors
    /// As for [`reset_async`](Self::reset_async).
    pub fn limit_async(&self, limit: Limit) -> CallFuture<Result<()>> {
        self.call(move |Shared { store, name, .. }| store.limit(name, &limit, true))
    }

    /// Async version of [`remove_limit`](Self::remove_limit): see [`CallFuture`].
    ///
    /// # Errors
    /// As for [`reset_async`](Self::reset_async).
    pub fn remove_limit_async(&self, limit: Limit) -> CallFuture<Result<()>> {
        self.call(move |Shared { store, name, .. }| store.limit(name, &limit, false))
    }

    /// Async version of [`limits`](Self::limits): see [`CallFuture`].
    ///
    /// # Errors
    /// As for [`reset_async`](Self::reset_async).
    pub fn limits_async(&self) -> CallFuture<Result<Vec<Limit>>> {
        self.call(move |Shared { store, name, .. }| store.limits(name))
    }

    /// Async version of [`list`](Self::list): see [`CallFuture`].
    ///
    /// # Errors
    /// As for [`reset_async`](Self::reset_async).
    pub fn list_async(
        &self,
        after: Option<(StoreTime, JobId)>,
        most: u32,
    ) -> CallFuture<Result<Vec<ListedJob>>> {
        self.call(move |Shared { store, name, .. }| store.list(name, after, most))
    }

    /// Async version of [`dead`](Self::dead): see [`CallFuture`].
    ///
    /// # Errors
    /// As for [`reset_async`](Self::reset_async).
    pub fn dead_async(&self, after: Option<JobId>, most: u32) -> CallFuture<Result<Vec<DeadJob>>> {
        self.call(move |Shared { store, name, .. }| store.dead(name, after, most))
    }

    /// Async version of [`redrive`](Self::redrive): see [`CallFuture`].
    ///
    /// # Errors
    /// As for [`reset_async`](Self::reset_async).
    pub fn redrive_async(&self, ids: &[JobId]) -> CallFuture<Result<usize>> {
        let ids = ids.to_vec();
        self.call(move |Shared { store, name, .. }| store.redrive(name, &ids))
    }

    /// Async version of [`delete_dead`](Self::delete_dead): see [`CallFuture`].
    ///
    /// # Errors
    /// As for [`reset_async`](Self::reset_async).
    pub fn delete_dead_async(&self, ids: &[JobId]) -> CallFuture<Result<usize>> {
        let ids = ids.to_vec();
        self.call(move |Shared { store, name, .. }| store.delete_dead(name, &ids))
    }

    /// Async version of [`store_stats`](Self::store_stats): see [`CallFuture`].
    ///
    /// # Errors
    /// As for [`reset_async`](Self::reset_async).
    pub fn store_stats_async(&self) -> CallFuture<Result<StoreStats>> {
        self.call(|Shared { store, name, .. }| store.stats(name))
    }

    /// Async version of [`shutdown`](Self::shutdown). The queue is closed when the future is first polled, and
    /// stays closed if the future is dropped. The timeout starts with this call.
    pub fn shutdown_async(&self, timeout: impl Into<Timeout>) -> CallFuture<ShutDown> {
        let shared = Arc::clone(self.shared());
        let deadline = timeout.into().deadline(&shared.control.clock);
        CallFuture::new(shared.shutdown_async(deadline))
    }

    pub(crate) fn call<R: Clone + Send + 'static>(
        &self,
        call: impl FnOnce(&Shared<S>) -> Result<R> + Send + 'static,
    ) -> CallFuture<Result<R>> {
        CallFuture::new(Arc::clone(self.shared()).call(call))
    }
}

/// Future of a push. Its error returns the value.
fn pushed<V: Send + 'static, R: 'static>(
    value: V,
    push: impl Future<Output = Result<R>> + Send + 'static,
) -> PushFuture<R, V> {
    CallFuture::new(async move { push.await.map_err(|error| PushError { value, error }) })
}

enum OwnedWhich {
    Id(JobId),
    Key(Vec<u8>),
}

impl OwnedWhich {
    fn of(which: Which<'_>) -> Self {
        match which {
            Which::Id(id) => Self::Id(id),
            Which::Key(key) => Self::Key(key.to_vec()),
        }
    }

    fn as_which(&self) -> Which<'_> {
        match self {
            Self::Id(id) => Which::Id(*id),
            Self::Key(key) => Which::Key(key),
        }
    }
}

impl<S: Store> Shared<S> {
    /// Makes a call on a call thread. Dropped before the call has started, the future withdraws it.
    pub(crate) async fn call<R: Clone + Send + 'static>(
        self: Arc<Self>,
        call: impl FnOnce(&Self) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        if self.control.is_forked() {
            return Err(StoreError::new(ErrorKind::Forked));
        }
        let threads = self.calls.clone();
        let call = move || {
            let answer = called(|| call(&self));
            // USER CODE: the drop of the last handle of the store. Before the answer, after which the caller may
            // expect that the store is gone.
            drop_quietly(self);
            answer
        };
        call_on(&threads, call).await
    }

    /// Inserts a job, together with those of other threads and futures if possible.
    async fn enter_async(self: Arc<Self>, job: OwnedJob) -> Result<Put> {
        if self.control.is_forked() {
            return Err(StoreError::new(ErrorKind::Forked));
        }
        if !Combiner::combines(&job.as_new()) {
            return self
                .call(move |shared| {
                    let job = job.as_new();
                    shared.observe_push(&[job], || shared.enter_alone(job))
                })
                .await;
        }
        let begun = self.config.observer.as_ref().map(|observer| {
            let begun = self.control.clock.now();
            (Arc::clone(observer), job.kind().map(str::to_owned), begun)
        });
        let reply = Reply::new();
        let ticket = self.pushes.enqueue(job, Arc::clone(&reply), &self);
        let answer = self.pushes.answer(&reply, ticket).await;
        if let Some((observer, kind, begun)) = begun {
            let took = self.control.clock.now().saturating_duration_since(begun);
            observer.pushed(kind.as_deref(), 1, took, &answer);
        }
        answer
    }

    async fn shutdown_async(self: Arc<Self>, deadline: Option<Instant>) -> ShutDown {
        if self.control.is_forked() {
            return ShutDown::Forked;
        }
        self.control.close(deadline);
        let has_ended = self.control.end_async(deadline).await;
        if self.control.is_forked() {
            return ShutDown::Forked;
        }
        if !has_ended {
            return ShutDown::TimedOut;
        }
        let joined = Arc::clone(&self).call(|shared| Ok(shared.join_pump()));
        // Without a call thread, the pump has ended nevertheless.
        joined.await.unwrap_or_else(|_| self.how_it_ended())
    }
}

impl<S: Store> Pushes for Arc<Shared<S>> {
    fn enter(&self, jobs: &[NewJob<'_>]) -> Result<Vec<Put>> {
        self.store.enqueue(&self.name, jobs)
    }

    fn summon(&self) {
        let shared = Arc::clone(self);
        // Behind the calls that wait.
        let lead = move || {
            if shared.pushes.lead_futures(&shared) {
                shared.summon();
            }
        };
        if let Err(error) = self.calls.submit(lead) {
            self.pushes.refuse(&refused(error));
        }
    }
}

impl Control {
    /// Waits until the pump has ended. Returns false if `deadline` passes first, or in a forked child.
    async fn end_async(&self, deadline: Option<Instant>) -> bool {
        let woken = Reply::new();
        self.wake_at_end(Waiter::Task(Waker::from(Arc::clone(&woken))));
        let mut limit = Deadline::new(deadline);
        poll_fn(|context| {
            if self.is_forked() {
                return Poll::Ready(());
            }
            // USER CODE: the waker's clone. Before the lock is taken. A panic is the poller's.
            match woken.look(Waiter::Task(context.waker().clone())) {
                Poll::Pending => limit.poll(&self.clock, context.waker()),
                ready @ Poll::Ready(()) => ready,
            }
        })
        .await;
        !self.is_forked() && self.is_over()
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::time::Duration;

    use testkit::block_on;

    use super::*;
    use crate::Threads;
    use crate::engine::stub::Stub;
    use crate::threads::call::call_threads;
    use crate::threads::clock::SharedClock;

    #[testkit::test]
    fn a_refused_thread_is_an_error_of_the_call_with_the_value() {
        let refuses = Arc::new(AtomicBool::new(true));
        let gate = {
            let refuses = Arc::clone(&refuses);
            move || {
                let refusal = || std::io::Error::other("the test allows no threads");
                (!refuses.load(SeqCst)).then_some(()).ok_or_else(refusal)
            }
        };
        let clock = SharedClock::default();
        let calls = call_threads(clock.clone())
            .thread_gate(gate)
            .build()
            .unwrap();
        let builder = DurableQueue::<String, _>::builder("queue", Stub);
        let queue = builder.threads(Threads::of(clock, calls)).build().unwrap();
        let value = || "job".to_owned();
        for _ in 0..3 {
            let failed = block_on(queue.push_async(value(), When::NOW)).unwrap_err();
            assert_eq!(
                (&*failed.value, failed.error.kind()),
                ("job", ErrorKind::NoThread)
            );
            let failed = queue.push_keyed_async("key", value(), When::NOW, Merge::Keep);
            assert_eq!(block_on(failed).unwrap_err().value, "job");
            let failed = queue.push_many_async(vec![Push::new(value(), When::NOW)]);
            assert_eq!(block_on(failed).unwrap_err().value[0].value(), "job");
            let failed = block_on(queue.cancel_async("key")).unwrap_err();
            assert!(matches!(failed, CancelError::Store(error) if error.is_transient()));
        }
        // Threads push nevertheless, and a shutdown needs no call thread.
        queue.push(value(), When::NOW).unwrap();
        queue.take_timeout(Duration::ZERO).unwrap_err();
        assert_eq!(
            block_on(queue.shutdown_async(crate::engine::config::LEASE)),
            ShutDown::Finished
        );
        refuses.store(false, SeqCst);
        block_on(queue.push_async(value(), When::NOW)).unwrap();
    }
}
