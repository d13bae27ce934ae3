//! A count of the outcomes of tasks, entries or keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts tickets. Uses the atomics of std, so that counting is not a step of a schedule.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Counts>);

#[derive(Default)]
struct Counts {
    issued: AtomicUsize,
    used: AtomicUsize,
    unused: AtomicUsize,
}

/// Captured by a task. It must be used once or be returned unused.
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

    /// Checks that every ticket was used or returned, and that `used` of them were used.
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
