//! Due entries through a crossbeam channel.

use std::io;
use std::sync::Arc;
use std::task::{Wake, Waker};

use crossbeam_channel::{Receiver, Select, Sender, bounded};
use sync_shim::thread::{JoinHandle, ThreadOptions, set_precise_timers, spawn_thread};
use sync_shim::{Clock, Process};

use crate::error::STAYED;
use crate::feeder::{Control, Unsent, feed};
use crate::heap::MOST;
use crate::wait::Driver;
use crate::{DelayQueue, Expired};

impl<T: Send + 'static, C: Clock> DelayQueue<T, C> {
    /// A channel that receives the entries as they fall due, for code that selects over channels.
    ///
    /// A thread of its own (`anthill-feeder`) takes them as any other consumer does and sends them.
    /// It ends when it is [stopped](Feeder::stop), when the queue is closed and everything has
    /// been sent, at [`close_now`](DelayQueue::close_now), and when there is no receiver any more
    /// (which it sees when the next entry falls due). The receivers are disconnected then.
    ///
    /// Of what has been taken but not been sent nothing is lost: it goes back into the queue, under
    /// its old id and before all others of its time. What lies in the channel's buffer, however,
    /// dies with the last receiver, so only a channel of `size` 0 loses nothing; and what lies
    /// there has left the queue, so it can no longer be cancelled. A buffer spares the feeder the
    /// wait for a receiver, and is for entries that may be lost.
    ///
    /// While it waits for a receiver, the feeder holds one entry: it is not counted in
    /// [`len`](DelayQueue::len), and cannot be cancelled or taken by others.
    ///
    /// Memory for the buffer is allocated at once.
    ///
    /// # Errors
    /// If the thread cannot be started, if `size` is more than a queue holds, or in a forked child.
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
        // Room for one: two interruptions before the feeder looks are one.
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
        let thread = spawn_thread(options, body)?;
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

/// Blocks until the value is received, or lies in the buffer.
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
        let _ = ready.recv(interrupted); // Its sender is held by the feeder itself.
        let is_final = false;
        return Err(Unsent { value, is_final });
    }
    ready.send(sender, value).map_err(|refused| Unsent {
        value: refused.0,
        is_final: true,
    })
}

/// Ends a send under way, or the next one.
struct Interrupt(Sender<()>);

impl Wake for Interrupt {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let _ = self.0.try_send(()); // If it is full, there is one already.
    }
}

/// The thread that feeds a [channel](DelayQueue::channel). Dropping it lets the thread go on.
///
/// ```
/// use std::time::Duration;
/// use delay_queue::DelayQueue;
///
/// let queue = DelayQueue::new();
/// let (receiver, feeder) = queue.channel(0)?;
/// queue.push("kept", Duration::ZERO)?;
/// feeder.stop(); // What was not received is back in the queue.
/// assert_eq!(queue.take()?.value, "kept");
/// # drop(receiver);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Feeder {
    control: Control,
    thread: JoinHandle,
    /// Where the thread is.
    process: Process,
}

impl Feeder {
    /// Ends the thread, and waits until it has ended. What it was about to send goes back into the
    /// queue. Does nothing in a forked child, where the thread is not.
    pub fn stop(self) {
        if !self.process.is_current() {
            return;
        }
        self.control.stop();
        // It can have panicked only with the clock; it has ended then too.
        let _ = self.thread.join();
    }
}
