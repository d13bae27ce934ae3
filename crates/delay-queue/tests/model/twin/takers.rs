//! Waiting futures, each with a waker that behaves as the program decides.

use std::cell::Cell;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};

use delay_queue::{DelayQueue, EntryId, Expired, PushError, PushFuture, TakeError};
use std::time::Duration;

use super::clock::TestClock;
use super::program::Conduct;

pub(crate) type Queue = DelayQueue<u32, TestClock>;

/// The entries that were taken or pushed, in the order of the results.
#[derive(Debug)]
pub(crate) enum Event {
    Took(Expired<u32>),
    Pushed(u32, EntryId, Duration),
    Closed,
    NoAlarm,
    /// A notification without effect: the future found no entry, or was dropped.
    Returned,
}

pub(crate) type Log = Mutex<Vec<Event>>;

/// Values of the entries that wakers push.
pub(crate) const BY_WAKERS: u32 = 1 << 31;

/// A taker, and the number of its notifications.
pub(crate) type Call = (u32, u32);

/// A future that takes one entry or a batch.
type Taking = Pin<Box<dyn Future<Output = Result<Vec<Expired<u32>>, TakeError>> + Send>>;

fn taking(queue: Queue, batch: Option<NonZeroUsize>) -> Taking {
    Box::pin(async move {
        let mut taken = Vec::new();
        match batch {
            None => taken.push(queue.take_async().await?),
            Some(most) => {
                let count = queue.take_many_async(&mut taken, most).await?;
                assert!((1..=most.get()).contains(&count) && count == taken.len());
            }
        }
        Ok(taken)
    })
}

pub(crate) struct Taker {
    me: Weak<Self>,
    future: Mutex<Option<Taking>>,
    /// Enrolled, as far as the future knows.
    waits: AtomicBool,
    woken: AtomicBool,
    wakes: AtomicU32,
    /// The number of the taker, never 0.
    number: u32,
    conduct: Conduct,
    other: Option<Arc<Self>>,
    queue: Queue,
    log: Arc<Log>,
    /// One push per taker, because a waker could push forever otherwise.
    pushed: AtomicBool,
}

impl Taker {
    pub(crate) fn new(
        queue: &Queue,
        log: &Arc<Log>,
        number: u32,
        batch: Option<NonZeroUsize>,
        conduct: Conduct,
        other: Option<Arc<Self>>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            future: Mutex::new(Some(taking(queue.clone(), batch))),
            waits: AtomicBool::new(false),
            woken: AtomicBool::new(false),
            wakes: AtomicU32::new(0),
            number,
            conduct,
            other,
            queue: queue.clone(),
            log: Arc::clone(log),
            pushed: AtomicBool::new(false),
        })
    }

    /// Whether it waits and has not been notified.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waits.load(SeqCst) && !self.woken.load(SeqCst)
    }

    /// Whether it has been notified and not polled since.
    pub(crate) fn is_called(&self) -> bool {
        self.waits.load(SeqCst) && self.woken.load(SeqCst)
    }

    /// Whether it has been notified, or will be after the waker that runs now.
    fn may_be_called(&self) -> bool {
        self.waits.load(SeqCst) && (self.woken.load(SeqCst) || NESTED.get() > 0)
    }

    /// The number of its latest notification.
    pub(crate) fn call(&self) -> Call {
        (self.number, self.wakes.load(SeqCst))
    }

    fn tell(&self, event: Event) {
        self.log.lock().expect("nothing panics with it").push(event);
    }

    pub(crate) fn is_over(&self) -> bool {
        !self.waits.load(SeqCst) && self.future.try_lock().is_ok_and(|future| future.is_none())
    }

    /// Polls it, unless it has ended or is being polled further up the stack.
    pub(crate) fn poll(&self) {
        let Ok(mut slot) = self.future.try_lock() else {
            return;
        };
        let (Some(future), Some(me)) = (slot.as_mut(), self.me.upgrade()) else {
            return;
        };
        let was_called = self.may_be_called();
        self.woken.store(false, SeqCst);
        // It counts as waiting, because it may be notified before the call returns.
        let waker = Waker::from(me);
        self.waits.store(true, SeqCst);
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        match polled {
            Poll::Pending => {
                if was_called {
                    self.tell(Event::Returned);
                }
                return;
            }
            Poll::Ready(Ok(taken)) => taken
                .into_iter()
                .for_each(|one| self.tell(Event::Took(one))),
            Poll::Ready(Err(error)) => {
                if was_called {
                    self.tell(Event::Returned);
                }
                self.tell(match error {
                    TakeError::Closed => Event::Closed,
                    TakeError::NoAlarm(_) => Event::NoAlarm,
                    other => panic!("{other:?} is no answer to a call that waits"),
                });
            }
        }
        self.waits.store(false, SeqCst);
        *slot = None;
    }

    /// Drops it, unless it is being polled further up the stack.
    pub(crate) fn drop_future(&self) {
        let Ok(mut slot) = self.future.try_lock() else {
            return;
        };
        let future = slot.take();
        drop(slot);
        if future.is_some() {
            if self.may_be_called() {
                self.tell(Event::Returned);
            }
            self.waits.store(false, SeqCst);
            drop(future);
        }
    }
}

thread_local! {
    /// Limits nested wakers, because a program of in-place wakers would overflow the stack.
    static NESTED: Cell<u32> = const { Cell::new(0) };
}

impl Wake for Taker {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, SeqCst);
        self.wakes.fetch_add(1, SeqCst);
        if NESTED.get() > 20 {
            return;
        }
        NESTED.set(NESTED.get() + 1);
        match self.conduct {
            Conduct::Later | Conduct::Panics => {}
            Conduct::InPlace => self.poll(),
            Conduct::Drops => self.drop_future(),
            Conduct::DropsOther => self.other.iter().for_each(|other| other.drop_future()),
            Conduct::Pushes => {
                if !self.pushed.swap(true, SeqCst) {
                    // At a time that no other entry has.
                    let delay = Duration::from_secs(1) + Duration::from_nanos(self.number.into());
                    let due = self.queue.clock().since_start() + delay;
                    let value = BY_WAKERS + self.number;
                    if let Ok(id) = self.queue.try_push(value, delay) {
                        self.tell(Event::Pushed(value, id, due));
                    }
                }
            }
        }
        NESTED.set(NESTED.get() - 1);
        if self.conduct == Conduct::Panics {
            std::panic::resume_unwind(Box::new("a waker")); // Without a message on stderr.
        }
    }
}

/// A future that pushes.
pub(crate) struct Pusher {
    pub(crate) value: u32,
    pub(crate) due: Duration,
    future: PushFuture<u32, TestClock>,
    woken: Arc<Flag>,
    /// In the wait queue, as far as the future knows.
    pub(crate) waits: bool,
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

impl Pusher {
    pub(crate) fn new(queue: &Queue, value: u32, delay: Duration) -> Self {
        Self {
            value,
            due: queue.clock().since_start() + delay,
            future: queue.push_async(value, delay),
            woken: Arc::default(),
            waits: false,
        }
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.woken.0.load(SeqCst)
    }

    pub(crate) fn poll(&mut self) -> Poll<Result<EntryId, PushError<u32>>> {
        let waker = Waker::from(Arc::clone(&self.woken));
        let polled = Pin::new(&mut self.future).poll(&mut Context::from_waker(&waker));
        self.waits = polled.is_pending();
        polled
    }
}
