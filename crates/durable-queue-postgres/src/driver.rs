//! The store's I/O thread, and the calls that use its connections.
//!
//! A call writes and reads on its caller's thread and parks in between. The store's thread watches the
//! sockets and wakes the caller. So no call and no drop enters a runtime, which would panic on a thread that
//! already runs one.
//!
//! # Invariants
//! 1. Only the store's thread is inside its runtime.
//! 2. A call ends at its limit. Its link is then cut, so that a late response cannot be read by another call.
//! 3. The thread ends with the last link, after each link has said goodbye or [`GOODBYE`] has passed.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use durable_queue::internals::SharedClock;
use durable_queue::store::Result;
use durable_queue::{ErrorKind, StoreError};
use sync_shim::thread::{ThreadOptions, spawn_service};
use sync_shim::{Clock, Parker};
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::unconstrained;
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{AsyncMessage, Client, Config, Error, Notification, Socket};

use super::failure::{no_session, no_thread};

/// Time limit for sending a session's last message.
const GOODBYE: Duration = Duration::from_secs(5);

type Answer<R> = std::result::Result<R, Error>;

/// Makes a connection, encrypted or not.
pub(super) type Connect = dyn Fn(Config) -> Connecting + Send + Sync;
pub(super) type Connecting = Pin<Box<dyn Future<Output = Answer<Connected>> + Send>>;
pub(super) type Connected = (Client, Box<dyn Connection>);

/// A connection, with or without encryption.
pub(super) trait Connection: Send {
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answer<AsyncMessage>>>;
}

impl<T: TlsStream + Unpin + Send> Connection for tokio_postgres::Connection<Socket, T> {
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answer<AsyncMessage>>> {
        tokio_postgres::Connection::poll_message(self, cx)
    }
}

/// Handle of the store's thread, which runs while a handle exists.
#[derive(Clone)]
pub(super) struct Driver {
    handle: Handle,
    alive: Sender<()>,
    clock: SharedClock,
}

impl Driver {
    pub(super) fn start() -> Result<Self> {
        let (alive, mut gone) = channel(1);
        let (sender, started) = mpsc::channel();
        let options = ThreadOptions {
            name: Some("durable-sockets"),
            ..ThreadOptions::default()
        };
        let thread = spawn_service(options, move || {
            // Created here: dropping it on a thread that runs a runtime would panic.
            match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => {
                    sender.send(Ok(runtime.handle().clone())).ok();
                    runtime.block_on(gone.recv());
                    runtime.shutdown_background();
                }
                Err(error) => _ = sender.send(Err(error)),
            }
        });
        let started = thread.and_then(|_| started.recv().map_err(std::io::Error::other)?);
        Ok(Self {
            handle: started.map_err(|error| no_thread(&error))?,
            alive,
            clock: SharedClock::default(),
        })
    }

    /// Connects on the store's thread. The caller waits.
    pub(super) fn connect(
        &self,
        connect: &Connect,
        config: Config,
        limit: Duration,
    ) -> Result<Link> {
        let (sender, connected) = mpsc::channel();
        let connecting = connect(config);
        let task = self
            .handle
            .spawn(async move { sender.send(connecting.await) });
        let Ok(connected) = connected.recv_timeout(limit) else {
            task.abort();
            return Err(StoreError::new(ErrorKind::Unavailable));
        };
        let (client, connection) = connected.map_err(|error| no_session(&error))?;
        let parker = Parker::new();
        Ok(Link {
            client,
            wire: Wire {
                connection: Some(connection),
                received: VecDeque::new(),
                waker: Arc::new(Caller(parker.clone())).into(),
                parker,
                driver: self.clone(),
            },
        })
    }
}

/// A connection, and its received messages.
pub(super) struct Link {
    client: Client,
    wire: Wire,
}

struct Wire {
    /// `None` once it is closed or cut.
    connection: Option<Box<dyn Connection>>,
    received: VecDeque<Notification>,
    /// Parker of the single caller at a time.
    parker: Parker,
    waker: Waker,
    driver: Driver,
}

/// Time limit of a call. Default: none.
#[derive(Clone, Copy, Default)]
pub(super) struct Limit {
    until: Option<Instant>,
    silence: Option<Duration>,
}

impl Limit {
    pub(super) fn until(until: Option<Instant>) -> Self {
        Self {
            until,
            silence: None,
        }
    }

    /// Extends the limit while bytes arrive with pauses of up to `silence`: a large transfer takes time, and
    /// would take it again.
    pub(super) fn or_silence(self, silence: Option<Duration>) -> Self {
        Self { silence, ..self }
    }
}

/// Wakes the caller.
struct Caller(Parker);

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

impl Link {
    pub(super) fn is_closed(&self) -> bool {
        self.wire.connection.is_none() || self.client.is_closed()
    }

    /// Returns `None` if there was no response by `limit`. The link is then cut.
    pub(super) fn call<R>(
        &mut self,
        limit: Limit,
        call: impl AsyncFnOnce(&mut Client) -> Answer<R>,
    ) -> Option<Answer<R>> {
        let mut answer = pin!(call(&mut self.client));
        let answer = self.wire.drive(limit, |cx, _| answer.as_mut().poll(cx));
        if answer.is_none() {
            self.wire.connection = None;
        }
        answer
    }

    /// Waits for a notification, up to `limit`.
    pub(super) fn next(&mut self, limit: Duration) -> Option<Answer<Notification>> {
        let limit = Limit::until(self.wire.driver.clock.after(limit));
        self.wire.drive(limit, |_, received| {
            received
                .pop_front()
                .map_or(Poll::Pending, |it| Poll::Ready(Ok(it)))
        })
    }

    /// Drops a connection that may be dead, without a goodbye.
    pub(super) fn cut(mut self) {
        self.wire.connection = None;
    }
}

impl Wire {
    /// Sends and receives until `poll` is ready or the limit is reached. An error of the connection counts as
    /// ready.
    fn drive<R>(
        &mut self,
        limit: Limit,
        mut poll: impl FnMut(&mut Context<'_>, &mut VecDeque<Notification>) -> Poll<Answer<R>>,
    ) -> Option<Answer<R>> {
        let Self {
            connection,
            received,
            parker,
            waker,
            driver,
        } = self;
        // The caller's task may have used up its budget of polls, which is renewed only after this call
        // returns.
        let mut driven = pin!(unconstrained(poll_fn(|cx| {
            if let Err(error) = receive(connection, received, cx) {
                return Poll::Ready(Err(error));
            }
            poll(cx, received)
        })));
        let mut cx = Context::from_waker(waker);
        let Limit { mut until, silence } = limit;
        loop {
            if let Poll::Ready(answer) = driven.as_mut().poll(&mut cx) {
                return Some(answer);
            }
            let Some(end) = until else {
                parker.park();
                continue;
            };
            if !driver.clock.park_until(parker, end) {
                return None;
            }
            // The socket is readable or writable.
            let later = silence.and_then(|silence| driver.clock.after(silence));
            until = until.max(later);
        }
    }
}

/// Sends and receives without waiting. A closed connection is dropped.
fn receive(
    connection: &mut Option<Box<dyn Connection>>,
    received: &mut VecDeque<Notification>,
    cx: &mut Context<'_>,
) -> Answer<()> {
    while let Some(open) = connection {
        match open.poll_message(cx) {
            Poll::Pending => break,
            Poll::Ready(Some(Ok(AsyncMessage::Notification(it)))) => received.push_back(it),
            Poll::Ready(Some(Ok(_))) => {} // A notice.
            Poll::Ready(None) => *connection = None,
            Poll::Ready(Some(Err(error))) => {
                *connection = None;
                return Err(error);
            }
        }
    }
    Ok(())
}

/// The store's thread sends the goodbye. The client is dropped afterwards, which closes the connection.
impl Drop for Wire {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        let alive = self.driver.alive.clone();
        self.driver.handle.spawn(async move {
            let over = poll_fn(|cx| {
                loop {
                    match connection.poll_message(cx) {
                        Poll::Ready(Some(Ok(_))) => {}
                        Poll::Ready(_) => return Poll::Ready(()),
                        Poll::Pending => return Poll::Pending,
                    }
                }
            });
            tokio::time::timeout(GOODBYE, over).await.ok();
            drop(alive);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::thread::scope;

    use sync_shim::{ManualClock, Mutex};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    /// Drives a link without a connection, while `socket` moves the clock and wakes like the socket.
    fn driven(socket: impl FnOnce(&ManualClock, &Waker, &Mutex<bool>)) -> Option<Answer<()>> {
        let clock = ManualClock::new();
        let parker = Parker::new();
        let waker = Waker::from(Arc::new(Caller(parker.clone())));
        let is_there = Mutex::new(false);
        let mut wire = Wire {
            connection: None,
            received: VecDeque::new(),
            waker: waker.clone(),
            parker,
            driver: Driver {
                clock: SharedClock::new(clock.clone()),
                ..Driver::start().expect("there are threads")
            },
        };
        let limit = Limit::until(clock.after(PATIENCE)).or_silence(Some(PATIENCE));
        testkit::watchdog(testkit::LIMIT, || {
            let mut answer = None;
            scope(|threads| {
                let call = || {
                    answer = wire.drive(limit, |_, _| {
                        if *is_there.lock() {
                            Poll::Ready(Ok(()))
                        } else {
                            Poll::Pending
                        }
                    });
                };
                threads.spawn(call);
                socket(&clock, &waker, &is_there);
            });
            answer
        })
    }

    #[testkit::test]
    fn an_answer_that_comes_in_pieces_has_longer_than_the_limit() {
        let answer = driven(|clock, waker, is_there| {
            for _ in 0..5 {
                clock.wait_for_sleepers(1);
                clock.advance(PATIENCE * 3 / 4);
                waker.wake_by_ref();
                while clock.next_due() != clock.after(PATIENCE) {
                    sync_shim::thread::yield_now();
                }
            }
            *is_there.lock() = true;
            waker.wake_by_ref();
        });
        assert!(matches!(answer, Some(Ok(()))));
    }

    #[testkit::test]
    fn a_call_ends_at_its_limit_if_nothing_comes() {
        let answer = driven(|clock, _, _| {
            clock.wait_for_sleepers(1);
            clock.advance(PATIENCE);
        });
        assert!(answer.is_none());
    }
}
