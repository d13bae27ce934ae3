//! Cancellation tokens: cooperative requests to stop.
//!
//! A token ends neither threads nor tasks. Tasks that hold a token poll it, or wait for it, and return by themselves.
//!
//! # Invariants
//! 1. `cancelled` is stored once, under the node's lock, and never reset. The section that stores it removes all
//!    listeners, so a listener that is added later finds the flag set.
//! 2. A node holds strong references to its parents, and they hold weak references to it. When it is cancelled or
//!    dropped it removes its entries from their lists, so a child leaves no memory behind.
//! 3. Nodes are cancelled and dropped in loops, not by recursion, so a chain of children can have any length.
//! 4. Wakers are cloned, called and dropped with no lock held. No thread holds the locks of two nodes.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Instant;

use sync_shim::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use sync_shim::waiter::{Waiter, WakeList};
use sync_shim::{Clock, Mutex, MutexGuard, Parker, Process, Timeout};

use crate::config::default_clock;
use crate::foreign::drop_quietly;

/// A token that asks tasks to stop. Clones refer to the same token.
///
/// Cancellation is cooperative: a task checks its token (or [`current`](crate::current)`().is_cancelled()`), or
/// waits for it instead of sleeping, and returns. A task that has not started is not run.
///
/// A [`child`](Self::child) is cancelled with its parent, and can be cancelled alone. A cancelled token stays cancelled.
///
/// ```
/// use pool_core::{CancelToken, Pool};
///
/// let pool = Pool::builder().capacity(1).build()?;
/// let token = CancelToken::new();
/// let ours = token.clone();
/// let rounds = pool.task().name("poller").cancelled_by(&token).spawn(move || {
///     let mut rounds = 0_u64;
///     while !ours.is_cancelled() {
///         rounds += 1;
///         std::thread::yield_now();
///     }
///     rounds
/// })?;
/// token.cancel();
/// // The task was not started, or has seen the request.
/// match rounds.join() {
///     Ok(_) | Err(pool_core::JoinError::Cancelled) => {}
///     Err(other) => return Err(other.into()),
/// }
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
///
/// In a forked child an inherited token can be checked and cancelled. Waits for it return `false` at once.
///
/// Modelled on tokio-util's `CancellationToken` and Go's `context`.
#[derive(Clone)]
#[doc(alias = "CancellationToken")]
#[doc(alias = "interrupt")]
#[doc(alias = "stop_token")]
pub struct CancelToken(Arc<Node>);

struct Node {
    cancelled: AtomicBool,
    /// The process that created the token.
    process: Process,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    listeners: Listeners,
    parents: Vec<Link>,
}

/// Each listener keeps its place until it is removed, so that adding and removing cost O(1).
#[derive(Default)]
struct Listeners {
    places: Vec<Option<Listener>>,
    free: Vec<usize>,
}

impl Listeners {
    fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    fn add(&mut self, listener: Listener) -> usize {
        if let Some(key) = self.free.pop() {
            self.places[key] = Some(listener);
            return key;
        }
        self.places.push(Some(listener));
        self.places.len() - 1
    }

    fn remove(&mut self, key: usize) -> Option<Listener> {
        let removed = self.places.get_mut(key)?.take()?;
        self.free.push(key);
        if self.len() == 0 {
            *self = Self::default(); // So that a token that had many listeners gives their memory back.
        }
        Some(removed)
    }
}

/// A party to notify of the cancellation.
enum Listener {
    Child(Weak<Node>),
    Waiter(Waiter),
}

/// A node's entry in a parent's list.
struct Link {
    parent: Arc<Node>,
    key: usize,
}

impl CancelToken {
    /// Creates a token that is cancelled only by its own [`cancel`](Self::cancel).
    pub fn new() -> Self {
        Self(Node::new())
    }

    /// Creates a token that is cancelled with this one, or alone. Costs one allocation. A
    /// dropped child leaves nothing behind.
    ///
    /// ```
    /// use pool_core::CancelToken;
    ///
    /// let shutdown = CancelToken::new();
    /// let request = shutdown.child();
    /// assert!(request.cancel() && !shutdown.is_cancelled());
    /// let other = shutdown.child();
    /// assert!(shutdown.cancel() && other.is_cancelled());
    /// ```
    pub fn child(&self) -> Self {
        let child = Self::new();
        child.cancel_with(self);
        child
    }

    /// Links the token to `parent`: it is cancelled with it, too.
    pub(crate) fn cancel_with(&self, parent: &Self) {
        match parent.0.add(Listener::Child(Arc::downgrade(&self.0))) {
            Ok(Some(key)) => {
                // After the parent's lock was released (invariant 4). A cancellation in between is found by the check below.
                let mut inner = self.0.inner.lock();
                if self.is_cancelled() {
                    drop(inner);
                    parent.0.remove(key); // Its own cancellation has run before, and cannot remove this link.
                } else {
                    let parent = Arc::clone(&parent.0);
                    inner.parents.push(Link { parent, key });
                }
            }
            Ok(None) => {}
            Err(_unneeded) => _ = self.cancel(),
        }
    }

    /// Cancels the token and its children. Returns `false` if it was already cancelled. May call the wakers of waiting
    /// futures.
    ///
    /// ```
    /// use pool_core::CancelToken;
    ///
    /// let token = CancelToken::new();
    /// assert!(token.cancel());
    /// assert!(!token.cancel()); // Already cancelled.
    /// assert!(token.clone().is_cancelled());
    /// ```
    pub fn cancel(&self) -> bool {
        let mut wakes = WakeList::new();
        // A list instead of recursion, because a chain of children may be longer than the stack is deep (invariant 3).
        let mut nodes = vec![Arc::clone(&self.0)];
        let mut first = None;
        while let Some(node) = nodes.pop() {
            let cancelled = node.cancel();
            first.get_or_insert(cancelled.is_some());
            let Some((listeners, links)) = cancelled else {
                continue;
            };
            for listener in listeners.places.into_iter().flatten() {
                match listener {
                    Listener::Child(child) => nodes.extend(child.upgrade()),
                    Listener::Waiter(waiter) => wakes.push(waiter),
                }
            }
            for Link { parent, key } in links {
                parent.remove(key);
            }
        }
        wakes.wake_all(); // Step T3, with no lock held, because wakers are user code.
        first.unwrap_or_default()
    }

    /// Returns whether the token is cancelled. Costs one load. A thread that reads `true` sees everything that happened
    /// before the cancellation.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Acquire) // Pairs with the store in `Node::cancel`.
    }

    /// Blocks until the token is cancelled and returns `true`. In a forked child it does not wait for an inherited token.
    pub fn wait(&self) -> bool {
        // The thread that would cancel it may not exist in a forked child.
        if !self.0.process.is_current() {
            return self.is_cancelled();
        }
        let parker = Parker::of_thread();
        // Before the first look, so that a cancellation between the two wakes this thread.
        let _listening = self.notify(Waiter::Thread(parker.clone()));
        while !self.is_cancelled() {
            parker.park();
        }
        true
    }

    /// Blocks until the token is cancelled (`true`), or until the time limit has passed (`false`), by the monotonic clock.
    /// Can be used as an interruptible sleep.
    ///
    /// ```
    /// use pool_core::CancelToken;
    /// use std::time::Duration;
    ///
    /// let token = CancelToken::new();
    /// assert!(!token.wait_timeout(Duration::from_millis(1))); // Timed out.
    /// token.cancel();
    /// assert!(token.wait_timeout(Duration::from_secs(3600))); // Returns at once.
    /// ```
    pub fn wait_timeout(&self, timeout: impl Into<Timeout>) -> bool {
        self.wait_timeout_by(&*default_clock(), timeout)
    }

    /// Like [`wait_timeout`](Self::wait_timeout), by the given clock.
    pub fn wait_timeout_by(&self, clock: &dyn Clock, timeout: impl Into<Timeout>) -> bool {
        match timeout.into().deadline(clock) {
            Some(deadline) => self.wait_until(clock, deadline),
            None => self.wait(),
        }
    }

    fn wait_until(&self, clock: &dyn Clock, deadline: Instant) -> bool {
        let parker = Parker::of_thread();
        let _listening = self.notify(Waiter::Thread(parker.clone()));
        while !self.is_cancelled() {
            if !clock.park_until(&parker, deadline) {
                // The cancellation may have come together with the deadline.
                return self.is_cancelled();
            }
        }
        true
    }

    /// Async version of [`wait`](Self::wait). Works on any runtime.
    ///
    /// ```
    /// use pool_core::CancelToken;
    ///
    /// let token = CancelToken::new();
    /// let ours = token.clone();
    /// std::thread::spawn(move || ours.cancel());
    /// futures_lite::future::block_on(token.cancelled());
    /// assert!(token.is_cancelled());
    /// ```
    pub fn cancelled(&self) -> Cancelled {
        Cancelled {
            token: self.clone(),
            key: None,
        }
    }

    /// Returns a guard that cancels the token when it is dropped: by a return, a `?`, a panic, or the drop of the future that
    /// holds it.
    ///
    /// ```
    /// use pool_core::{CancelToken, Pool};
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// let token = CancelToken::new();
    /// let ours = token.clone();
    /// {
    ///     let _guard = token.clone().drop_guard();
    ///     pool.task().cancelled_by(&token).submit(move || ours.wait())?;
    /// } // The task is asked to stop.
    /// assert!(token.is_cancelled());
    /// # pool.wait_idle()?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn drop_guard(self) -> CancelOnDrop {
        CancelOnDrop(Some(self))
    }

    /// Registers a waiter until the guard is dropped. The caller must check the token afterwards: a token that was cancelled
    /// before wakes nobody.
    pub(crate) fn notify(&self, waiter: Waiter) -> Listening<'_> {
        let key = self.0.add(Listener::Waiter(waiter)).ok().flatten();
        Listening { node: &self.0, key }
    }
}

/// Cancels its token when it is dropped. See [`CancelToken::drop_guard`].
#[derive(Debug)]
#[doc(alias = "DropGuard")]
#[must_use = "dropping the guard cancels its token"]
pub struct CancelOnDrop(Option<CancelToken>); // `None` once disarmed.

impl CancelOnDrop {
    /// Returns the token without cancelling it.
    ///
    /// ```
    /// use pool_core::CancelToken;
    ///
    /// let guard = CancelToken::new().drop_guard();
    /// let token = guard.disarm(); // Everything went well.
    /// assert!(!token.is_cancelled());
    /// ```
    pub fn disarm(mut self) -> CancelToken {
        self.0.take().unwrap_or_default() // Only this takes it.
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(token) = &self.0 {
            token.cancel();
        }
    }
}

impl Node {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            cancelled: AtomicBool::new(false),
            process: Process::current(),
            inner: Mutex::new(Inner::default()),
        })
    }

    /// Locks the node. Returns `None` in a forked child, where a thread that does not exist may hold the lock.
    fn inner(&self) -> Option<MutexGuard<'_, Inner>> {
        self.process.is_current().then(|| self.inner.lock())
    }

    /// Cancels the node. Returns its listeners, which the caller notifies, and the links to its parents, which are no longer
    /// needed. Returns `None` if it was cancelled before.
    fn cancel(&self) -> Option<(Listeners, Vec<Link>)> {
        // Step T2.
        let mut inner = self.inner();
        // Under the lock, so that of two calls exactly one takes the listeners.
        if self.cancelled.load(Acquire) {
            return None;
        }
        self.cancelled.store(true, Release); // Pairs with the load in `is_cancelled`.
        let taken = inner.as_mut().map(|inner| {
            let listeners = mem::take(&mut inner.listeners);
            (listeners, mem::take(&mut inner.parents))
        });
        Some(taken.unwrap_or_default())
    }

    /// Adds a listener and returns its key, or `None` in a forked child.
    ///
    /// # Errors
    /// Returns the listener if the token was cancelled before.
    fn add(&self, listener: Listener) -> Result<Option<usize>, Listener> {
        let Some(mut inner) = self.inner() else {
            return Ok(None);
        };
        // Step T1, invariant 1: under the lock, so that a cancellation either is seen here or finds the listener.
        if self.cancelled.load(Acquire) {
            return Err(listener);
        }
        Ok(Some(inner.listeners.add(listener)))
    }

    /// Removes a listener, if it has not been notified.
    fn remove(&self, key: usize) {
        if let Some(mut inner) = self.inner() {
            let removed = inner.listeners.remove(key);
            drop(inner);
            drop_quietly(removed); // After the unlock: it may be a waker, whose drop is user code.
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A loop, because the recursive drop of a long chain would overflow the stack (invariant 3).
        let mut links = mem::take(&mut self.inner.get_mut().parents);
        while let Some(Link { parent, key }) = links.pop() {
            parent.remove(key);
            // The parent's own drop would recurse; its links are moved into this loop instead, so that it has none.
            if let Some(mut last) = Arc::into_inner(parent) {
                links.append(&mut last.inner.get_mut().parents);
            }
        }
    }
}

/// A guard while which a waiter is woken by its token.
pub(crate) struct Listening<'a> {
    node: &'a Node,
    key: Option<usize>,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.node.remove(key);
        }
    }
}

/// A future that resolves when its token is cancelled. See [`CancelToken::cancelled`].
#[must_use = "futures do nothing unless polled"]
pub struct Cancelled {
    token: CancelToken,
    /// The key of its waker, from the first poll on.
    key: Option<usize>,
}

impl Future for Cancelled {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let is_cancelled = self.token.is_cancelled();
        if is_cancelled || !self.token.0.process.is_current() {
            return Poll::Ready(is_cancelled);
        }
        // Before the lock is taken, because a waker's clone is user code.
        let waiter = Listener::Waiter(Waiter::Task(context.waker().clone()));
        // Removed first, so that the token's list does not grow with each poll.
        if let Some(stale) = self.key.take() {
            self.token.0.remove(stale);
        }
        match self.token.0.add(waiter) {
            Ok(key) => {
                self.key = key;
                Poll::Pending
            }
            Err(unneeded) => {
                drop_quietly(unneeded);
                Poll::Ready(true)
            }
        }
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.token.0.remove(key);
        }
    }
}

impl Default for CancelToken {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken")
            .field("cancelled", &self.is_cancelled())
            .field(
                "listeners",
                &self.0.inner().map_or(0, |inner| inner.listeners.len()),
            )
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.token.fmt(f)
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_child_that_is_kept_costs_its_parents_nothing() {
        let (parent, other) = (CancelToken::new(), CancelToken::new());
        let listeners = |token: &CancelToken| token.0.inner.lock().listeners.len();
        let children: Vec<_> = (0..100).map(|_| parent.child()).collect();
        for child in &children {
            child.cancel_with(&other);
        }
        assert_eq!([&parent, &other].map(listeners), [100, 100]);
        for child in &children {
            assert!(child.cancel());
            child.cancel_with(&parent);
        }
        assert_eq!([&parent, &other].map(listeners), [0, 0]);
        assert_eq!(
            [&parent, &other].map(|token| Arc::strong_count(&token.0)),
            [1, 1]
        );
        let late = parent.child();
        assert!(parent.cancel() && late.is_cancelled());
        assert_eq!(Arc::strong_count(&parent.0), 1);
    }
}
