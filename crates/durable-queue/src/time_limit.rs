//! The time limit of one attempt, shared by the pump, which ends the attempt, and the attempt's worker.
//!
//! # Invariants
//! 1. Once it is over, it stays over.
//! 2. It is not over while the job waits for its kind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sync_shim::Mutex;

#[derive(Clone, Debug)]
pub(crate) struct TimeLimit(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    span: Duration,
    stage: Mutex<Stage>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The job waits for its kind.
    Waits,
    /// The handler was called, or the job was handed out.
    Since(Instant),
    Over,
}

impl TimeLimit {
    pub(crate) fn new(span: Duration, since: Instant) -> Self {
        let stage = Mutex::new(Stage::Since(since));
        Self(Arc::new(Shared { span, stage }))
    }

    /// The job waits for its kind.
    pub(crate) fn suspend(&self) {
        self.change(Stage::Waits);
    }

    /// The handler is about to be called.
    pub(crate) fn begin(&self, now: Instant) {
        self.change(Stage::Since(now));
    }

    fn change(&self, to: Stage) {
        let stage = &mut *self.0.stage.lock();
        if !matches!(stage, Stage::Over) {
            *stage = to;
        }
    }

    /// Ends the attempt, if its time is over. Otherwise returns the duration until the next look.
    pub(crate) fn expire(&self, now: Instant) -> Result<(), Duration> {
        let stage = &mut *self.0.stage.lock();
        let left = match *stage {
            Stage::Waits => self.0.span,
            Stage::Since(since) => {
                let took = now.saturating_duration_since(since);
                self.0.span.saturating_sub(took)
            }
            Stage::Over => Duration::ZERO,
        };
        if left > Duration::ZERO || matches!(stage, Stage::Waits) {
            return Err(left);
        }
        *stage = Stage::Over;
        Ok(())
    }

    #[cfg(feature = "async")]
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.0.stage.lock(), Stage::Over)
    }

    /// Error of the attempt.
    pub(crate) fn error(&self) -> String {
        let span = self.0.span;
        format!("the attempt took longer than its time limit of {span:?}")
    }
}
