//! What became of each task, entry or key.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts tickets. Its own atomics are std's: counting is no step of any schedule.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Counts>);

#[derive(Default)]
struct Counts {
    issued: AtomicUsize,
    used: AtomicUsize,
    unused: AtomicUsize,
}

/// What a task takes with it. It is used once, or comes back unused, or is lost.
pub(crate) struct Ticket {
    ledger: Ledger,
    used: bool,
}

impl Ledger {
    pub(crate) fn ticket(&self) -> Ticket {
        self.0.issued.fetch_add(1, Relaxed);
        Ticket {
            ledger: self.clone(),
            used: false,
        }
    }

    /// A task that uses a ticket.
    pub(crate) fn task(&self) -> impl FnOnce() + Send + use<> + 'static {
        let ticket = self.ticket();
        move || ticket.spend()
    }

    pub(crate) fn used(&self) -> usize {
        self.0.used.load(Relaxed)
    }

    /// Every ticket was used or came back; `used` of them were used.
    pub(crate) fn is_settled(&self) {
        let Counts {
            issued,
            used,
            unused,
        } = &*self.0;
        let [issued, used, unused] = [issued, used, unused].map(|count| count.load(Relaxed));
        assert_eq!(issued, used + unused, "lost: {used} used, {unused} unused");
    }
}

impl Ticket {
    pub(crate) fn spend(mut self) {
        self.used = true;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Counts { used, unused, .. } = &*self.ledger.0;
        let count = if self.used { used } else { unused };
        count.fetch_add(1, Relaxed);
    }
}
