//! Jobs that this process cannot read: it gives them back, because another process may be newer, or have more features.
//!
//! # Invariants
//! 1. A job that is given back keeps its attempts.
//! 2. The history of such a job has a single entry for it, with the time of the first time and [`NO_ATTEMPT`].

use std::time::Duration;

use crate::store::Act;
use crate::store::failures::{Failed, NO_ATTEMPT};
use crate::store::offset::Offset;

/// Default of [`Builder::unreadable_for`](crate::Builder::unreadable_for): a day.
pub const UNREADABLE: Duration = Duration::from_secs(86_400);
/// Minimum time until this process may claim the job again.
pub const FIRST_UNREAD: Duration = Duration::from_millis(100);
/// Maximum of that time.
pub const LONGEST_UNREAD: Duration = Duration::from_secs(60);

/// An unreadable job, and what becomes of it.
#[derive(Debug)]
pub(crate) struct Unread {
    failed: Failed,
    fate: Option<Fate>,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    /// Given back for at least this time.
    Back(Duration),
    Buried,
}

impl Unread {
    pub(crate) fn new(failed: Failed) -> Self {
        Self { failed, fate: None }
    }

    /// Decides, once: a command that is sent again stays the same. A job that has been unreadable for `longest` is buried.
    pub(crate) fn decide(&mut self, offset: Option<Offset>, longest: Duration) {
        if self.fate.is_some() {
            return;
        }
        let since = self.failed.unread_since();
        let age = since.map_or(Duration::ZERO, |since| {
            self.failed.time(offset).since(since)
        });
        if age >= longest {
            self.failed.write(offset);
            self.fate = Some(Fate::Buried);
            return;
        }
        if since.is_none() {
            self.failed.attempt = NO_ATTEMPT;
            self.failed.write(offset);
        }
        // Grows with the age, so that a job that nobody can read costs little.
        let pause = (age / 4).clamp(FIRST_UNREAD, LONGEST_UNREAD);
        self.fate = Some(Fate::Back(pause));
    }

    pub(crate) fn act(&self) -> Act<'_> {
        let failures = Some(self.failed.text()).filter(|text| !text.is_empty());
        match self.fate {
            Some(Fate::Buried) => Act::Bury {
                error: self.failed.error(),
                failures,
                counts: false,
            },
            Some(Fate::Back(pause)) => Act::Retry {
                when: pause.into(),
                failures,
                counts: false,
            },
            None => Act::Release, // Not sent.
        }
    }
}
