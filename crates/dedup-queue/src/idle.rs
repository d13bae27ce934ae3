//! Waiting until the queue is idle, without shutting it down.
//!
//! # Guarantee
//! A wait ends in the first section that leaves no key pending or held, even if the next section
//! adds a key before the waiter runs again.

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Instant;

use delay_queue::wait::{Driver as _, Waiter};
use sync_shim::foreign::drop_quietly;
use sync_shim::{Clock, Parker, Timeout};

use crate::core::{Hasher, Key};
use crate::drain_waiters::DrainId;
use crate::layer::Layer;
use crate::queue::KeyQueue;

impl<K: Key, S: Hasher, C: Clock, L: Layer> KeyQueue<K, S, C, L> {
    /// Blocks until no key is ready, held or delayed.
    ///
    /// The queue stays open, so it may be busy again when the call returns.
    /// [`drain`](KeyQueue::drain) shuts the queue down instead. Keys
    /// that are remembered only for their failures do not count, and after a shut-down neither do
    /// delayed keys, which are leftovers. A worker that calls this method while it holds a key
    /// waits for itself.
    ///
    /// Returns `true`, except in a forked child if the queue is not idle, because its workers do not
    /// exist there.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    /// use std::thread;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// queue.add("a")?;
    /// thread::scope(|scope| {
    ///     scope.spawn(|| queue.get().unwrap().done());
    ///     queue.wait_idle();
    /// });
    /// assert!(queue.add("b").is_ok(), "the queue is still open");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_idle(&self) -> bool {
        self.wait_idle_until(None)
    }

    /// Like [`wait_idle`](KeyQueue::wait_idle), but waits for at most `timeout`. Returns `false` on
    /// time-out.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// queue.add("a")?; // No worker takes it.
    /// assert!(!queue.wait_idle_timeout(std::time::Duration::from_millis(1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "the wait may have timed out"]
    pub fn wait_idle_timeout(&self, timeout: impl Into<Timeout>) -> bool {
        self.wait_idle_until(timeout.into().deadline(self.clock()))
    }

    /// Async version of [`wait_idle`](KeyQueue::wait_idle). Starts with the first poll, and may be
    /// dropped at any moment.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// # futures_lite::future::block_on(async {
    /// assert!(queue.wait_idle_async().await);
    /// # });
    /// ```
    pub fn wait_idle_async(&self) -> impl Future<Output = bool> + Send + Unpin + use<K, S, C, L> {
        let mut wait = IdleWait::new(self);
        // USER CODE: the waker's clone. A panic is the poller's.
        poll_fn(move |context| wait.poll(Waiter::Task(context.waker().clone())))
    }

    fn wait_idle_until(&self, deadline: Option<Instant>) -> bool {
        let parker = Parker::of_thread();
        let mut wait = IdleWait::new(self);
        loop {
            if let Poll::Ready(was_idle) = wait.poll(Waiter::Thread(Parker::clone(&parker))) {
                return was_idle;
            }
            match deadline {
                None => parker.park(),
                Some(when) => {
                    // USER CODE: `Clock::park_until`. A panic removes the waiter.
                    if !self.clock().park_until(&parker, when) {
                        return wait.give_up();
                    }
                }
            }
        }
    }
}

/// One wait, which leaves no trace in the queue when it is dropped.
struct IdleWait<K: Key, S: Hasher, C: Clock, L: Layer> {
    queue: KeyQueue<K, S, C, L>,
    /// Present while the wait is queued, or has a result to fetch.
    id: Option<DrainId>,
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> IdleWait<K, S, C, L> {
    fn new(queue: &KeyQueue<K, S, C, L>) -> Self {
        Self {
            queue: queue.clone(),
            id: None,
        }
    }

    /// Returns whether the queue was idle. If that is not known yet, the waiter will be woken.
    fn poll(&mut self, waiter: Waiter) -> Poll<bool> {
        let core = self.queue.core();
        let mut waiter = Some(waiter); // The rest is dropped when the lock is free.
        let id = *self.id.get_or_insert_with(|| {
            core.update(|state| {
                let waiter = waiter.take().expect("the waiter is used once");
                state.begin_idle_wait(waiter)
            })
        });
        let answer = core.update(|state| state.idle_waiters.ask(id, waiter.as_mut()));
        // USER CODE: the drop of a stale waker.
        drop_quietly(waiter);
        if answer.is_some() {
            self.id = None;
            Poll::Ready(true)
        } else if !core.process().is_current() {
            Poll::Ready(self.give_up())
        } else {
            Poll::Pending
        }
    }

    /// Stops waiting. Returns whether the queue was idle in the meantime.
    fn give_up(&mut self) -> bool {
        let Some(id) = self.id.take() else {
            return false;
        };
        let core = self.queue.core();
        let waiter = core.update(|state| state.idle_waiters.leave(id));
        let was_waiting = waiter.is_some();
        // USER CODE: the drop of a waker.
        drop_quietly(waiter);
        !was_waiting
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> Drop for IdleWait<K, S, C, L> {
    fn drop(&mut self) {
        self.give_up();
    }
}
