//! The simplest pool: threads that receive boxed closures from a channel.

use std::thread;

use crate::peer::{Peer, Refusing, Shape};

pub type Task = Box<dyn FnOnce() + Send>;

/// A multi-producer, multi-consumer channel.
pub trait Mpmc: Send + Sync + Sized + 'static {
    type Sender<T: Send + 'static>: Clone + Send + Sync + 'static;
    type Receiver<T: Send + 'static>: Clone + Send + 'static;

    fn channel<T: Send + 'static>(depth: Option<u32>) -> (Self::Sender<T>, Self::Receiver<T>);
    fn send<T: Send + 'static>(sender: &Self::Sender<T>, value: T);
    fn try_send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) -> bool;
    fn receive<T: Send + 'static>(receiver: &Self::Receiver<T>) -> Option<T>;

    /// Threads that call `body` with each value that they receive from a new channel.
    fn feed<T: Send + 'static>(
        shape: Shape,
        body: impl Fn(T) + Clone + Send + 'static,
    ) -> Self::Sender<T> {
        let (sender, receiver) = Self::channel(shape.depth);
        for _ in 0..shape.threads {
            let (receiver, body) = (receiver.clone(), body.clone());
            thread::spawn(move || {
                while let Some(value) = Self::receive(&receiver) {
                    body(value);
                }
            });
        }
        sender
    }
}

pub struct Channel<C: Mpmc>(C::Sender<Task>);

impl<C: Mpmc> Peer for Channel<C> {
    type Inner = C::Sender<Task>;

    fn start(shape: Shape) -> Self {
        Self(C::feed(shape, |task: Task| task()))
    }

    #[inline]
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
        C::send(&self.0, Box::new(task));
    }

    fn inner(&self) -> Self::Inner {
        self.0.clone()
    }

    #[inline]
    fn submit_inner<F: FnOnce() + Send + 'static>(inner: &Self::Inner, task: F) {
        C::send(inner, Box::new(task));
    }
}

impl<C: Mpmc> Refusing for Channel<C> {
    #[inline]
    fn try_submit<F: FnOnce() + Send + 'static>(&self, task: F) -> bool {
        C::try_send(&self.0, Box::new(task))
    }
}

pub struct Crossbeam;

impl Mpmc for Crossbeam {
    type Sender<T: Send + 'static> = crossbeam_channel::Sender<T>;
    type Receiver<T: Send + 'static> = crossbeam_channel::Receiver<T>;

    fn channel<T: Send + 'static>(depth: Option<u32>) -> (Self::Sender<T>, Self::Receiver<T>) {
        match depth {
            Some(depth) => crossbeam_channel::bounded(depth as usize),
            None => crossbeam_channel::unbounded(),
        }
    }

    #[inline]
    fn send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) {
        assert!(sender.send(value).is_ok(), "the receivers live");
    }

    #[inline]
    fn try_send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) -> bool {
        sender.try_send(value).is_ok()
    }

    #[inline]
    fn receive<T: Send + 'static>(receiver: &Self::Receiver<T>) -> Option<T> {
        receiver.recv().ok()
    }
}

pub struct Kanal;

impl Mpmc for Kanal {
    type Sender<T: Send + 'static> = kanal::Sender<T>;
    type Receiver<T: Send + 'static> = kanal::Receiver<T>;

    fn channel<T: Send + 'static>(depth: Option<u32>) -> (Self::Sender<T>, Self::Receiver<T>) {
        match depth {
            Some(depth) => kanal::bounded(depth as usize),
            None => kanal::unbounded(),
        }
    }

    #[inline]
    fn send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) {
        assert!(sender.send(value).is_ok(), "the receivers live");
    }

    #[inline]
    fn try_send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) -> bool {
        sender.try_send(value).is_ok_and(|sent| sent)
    }

    #[inline]
    fn receive<T: Send + 'static>(receiver: &Self::Receiver<T>) -> Option<T> {
        receiver.recv().ok()
    }
}

/// `crossfire`, which has no channel of depth 0.
pub struct Crossfire;

/// Its bounded and unbounded channels are different types.
#[derive(Clone)]
pub enum Fire<B, U> {
    Bounded(B),
    Unbounded(U),
}

impl Mpmc for Crossfire {
    type Sender<T: Send + 'static> =
        Fire<crossfire::MTx<crossfire::mpmc::Array<T>>, crossfire::MTx<crossfire::mpmc::List<T>>>;
    type Receiver<T: Send + 'static> =
        Fire<crossfire::MRx<crossfire::mpmc::Array<T>>, crossfire::MRx<crossfire::mpmc::List<T>>>;

    fn channel<T: Send + 'static>(depth: Option<u32>) -> (Self::Sender<T>, Self::Receiver<T>) {
        crossfire::detect_backoff_cfg(); // Recommended by its documentation.
        if let Some(depth) = depth {
            let (sender, receiver) = crossfire::mpmc::bounded_blocking(depth as usize);
            (Fire::Bounded(sender), Fire::Bounded(receiver))
        } else {
            let (sender, receiver) = crossfire::mpmc::unbounded_blocking();
            (Fire::Unbounded(sender), Fire::Unbounded(receiver))
        }
    }

    #[inline]
    fn send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) {
        let sent = match sender {
            Fire::Bounded(sender) => sender.send(value).is_ok(),
            Fire::Unbounded(sender) => sender.send(value).is_ok(),
        };
        assert!(sent, "the receivers live");
    }

    #[inline]
    fn try_send<T: Send + 'static>(sender: &Self::Sender<T>, value: T) -> bool {
        match sender {
            Fire::Bounded(sender) => sender.try_send(value).is_ok(),
            Fire::Unbounded(sender) => sender.try_send(value).is_ok(),
        }
    }

    #[inline]
    fn receive<T: Send + 'static>(receiver: &Self::Receiver<T>) -> Option<T> {
        match receiver {
            Fire::Bounded(receiver) => receiver.recv().ok(),
            Fire::Unbounded(receiver) => receiver.recv().ok(),
        }
    }
}
