//! Due entries through a crossbeam channel.

use std::io;
use std::sync::Arc;
use std::task::{Wake, Waker};

use crossbeam_channel::{Receiver, Select, Sender, bounded};
use sync_shim::thread::{JoinHandle, ThreadOptions, set_precise_timers, spawn_service};
use sync_shim::{Clock, Process};

use crate::error::STAYED;
use crate::feeder::{Control, Unsent, feed};
use crate::heap::MOST;
use crate::wait::Driver;
use crate::{DelayQueue, Expired};

impl<T: Send + 'static, C: Clock> DelayQueue<T, C> {
    /// Returns a channel that receives the entries when they are due, for code that selects over
    /// channels.
    ///
    /// A dedicated thread (`anthill-feeder`) takes the entries as any other consumer does, and
    /// sends them. It ends when it is [stopped](Feeder::stop), when the queue is closed and all
    /// entries have been sent, after [`close_now`](DelayQueue::close_now), and when all receivers
    /// are gone (which it notices when the next entry falls due). The receivers are then
    /// disconnected.
    ///
    /// An entry that was taken but not sent is not lost: it returns to the queue, with its old id
    /// and before all other entries with its time. Entries in the channel's buffer, however, are
    /// dropped with the last receiver, so only a channel of `size` 0 loses nothing. Buffered
    /// entries have left the queue, so they can no longer be cancelled. A buffer saves the feeder
    /// the wait for a receiver; use one only for entries that may be lost.
    ///
    /// While the feeder waits for a receiver, it holds one entry, which is not counted in
    /// [`len`](DelayQueue::len) and cannot be cancelled or taken by other consumers.
    ///
    /// The memory for the buffer is allocated at once.
    ///
    /// # Errors
    /// If the thread cannot be started, if `size` is more than a queue can hold, or in a forked
    /// child.
    ///
    /// ```
    /// use std::time::Duration;
    /// use delay_queue::DelayQueue;
    ///
    /// let queue = DelayQueue::new();
    /// let (receiver, feeder) = queue.channel(0)?;
    /// queue.push("tick", Duration::from_millis(1))?;
    /// assert_eq!(receiver.recv()?.value, "tick");
    ///
    /// feeder.stop();
    /// assert!(receiver.recv().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn channel(&self, size: usize) -> io::Result<(Receiver<Expired<T>>, Feeder)> {
        if size > MOST {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the buffer is larger than a queue can be",
            ));
        }
        if !self.0.process().is_current() {
            return Err(io::Error::other(STAYED));
        }
        let (sender, receiver) = bounded(size);
        // Capacity for one: two interruptions before the feeder checks count as one.
        let (interrupt, interrupted) = bounded(1);
        let control = Control::new(Waker::from(Arc::new(Interrupt(interrupt))));
        let (queue, control_of_feeder) = (self.clone(), control.clone());
        let body = move || {
            set_precise_timers();
            feed(&queue, &control_of_feeder, |value| {
                offer(&sender, &interrupted, value)
            });
        };
        let options = ThreadOptions {
            name: Some("anthill-feeder"),
            ..ThreadOptions::default()
        };
        let thread = spawn_service(options, body)?;
        Ok((
            receiver,
            Feeder {
                control,
                thread,
                process: Process::current(),
            },
        ))
    }
}

/// Blocks until the value is received or stored in the buffer.
fn offer<T>(
    sender: &Sender<Expired<T>>,
    interrupted: &Receiver<()>,
    value: Expired<T>,
) -> Result<(), Unsent<T>> {
    let mut select = Select::new_biased();
    let interruption = select.recv(interrupted);
    select.send(sender);
    let ready = select.select();
    if ready.index() == interruption {
        let _ = ready.recv(interrupted); // Cannot be disconnected: the feeder holds a sender.
        let is_final = false;
        return Err(Unsent { value, is_final });
    }
    ready.send(sender, value).map_err(|refused| Unsent {
        value: refused.0,
        is_final: true,
    })
}

/// Interrupts the current send, or the next one.
struct Interrupt(Sender<()>);

impl Wake for Interrupt {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let _ = self.0.try_send(()); // If the channel is full, an interruption is already pending.
    }
}

/// The thread that feeds a [channel](DelayQueue::channel). The thread continues if this handle is
/// dropped.
///
/// ```
/// use std::time::Duration;
/// use delay_queue::DelayQueue;
///
/// let queue = DelayQueue::new();
/// let (receiver, feeder) = queue.channel(0)?;
/// queue.push("kept", Duration::ZERO)?;
/// feeder.stop(); // The entry that was not received is back in the queue.
/// assert_eq!(queue.take()?.value, "kept");
/// # drop(receiver);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Feeder {
    control: Control,
    thread: JoinHandle,
    /// The process in which the thread runs.
    process: Process,
}

impl Feeder {
    /// Stops the thread, and waits until it has ended. The entry that it was about to send returns
    /// to the queue. Does nothing in a forked child, where the thread does not exist.
    pub fn stop(self) {
        if !self.process.is_current() {
            return;
        }
        self.control.stop();
        // The thread panics only if the clock does; it has ended then too.
        let _ = self.thread.join();
    }
}
