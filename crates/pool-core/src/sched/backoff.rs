//! Exponential backoff for an effort that does not pay.

/// After `free` failures in a row, each further failure skips the next 1, 2, 4, .. efforts, up to `most`. A success
/// starts over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    /// Failures in a row that skip nothing.
    free: u32,
    /// Maximum number of efforts skipped in a row. A power of two.
    most: u32,
    failures: u32,
    left_out: u32,
}

impl Backoff {
    pub(crate) const fn new(free: u32, most: u32) -> Self {
        Self {
            free,
            most,
            failures: 0,
            left_out: 0,
        }
    }

    /// Whether to make the effort this time.
    pub(crate) fn is_due(&mut self) -> bool {
        let is_due = self.left_out == 0;
        self.left_out = self.left_out.saturating_sub(1);
        is_due
    }

    /// Whether the next effort is skipped.
    #[cfg(all(test, not(anthill_loom)))]
    pub(crate) fn is_left_out(&self) -> bool {
        self.left_out > 0
    }

    /// Records the outcome of an effort.
    pub(crate) fn learn(&mut self, paid: bool) {
        if paid {
            // From the start, because one success shows that the effort pays again.
            *self = Self::new(self.free, self.most);
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if let Some(doublings) = self.failures.checked_sub(self.free + 1) {
            // After 32 doublings the shift would overflow, so the limit takes over.
            let left_out = 1_u32.checked_shl(doublings).unwrap_or(self.most);
            self.left_out = left_out.min(self.most);
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    /// How many efforts are left out after another failure.
    fn left_out_after_failure(backoff: &mut Backoff) -> u32 {
        assert!(backoff.is_due());
        backoff.learn(false);
        let mut left_out = 0;
        while !backoff.is_due() {
            left_out += 1;
        }
        left_out
    }

    #[test]
    fn each_failure_in_a_row_leaves_out_twice_as_many_up_to_the_limit() {
        let mut backoff = Backoff::new(0, 8);
        for expected in [1, 2, 4, 8, 8, 8] {
            assert_eq!(left_out_after_failure(&mut backoff), expected);
        }
        for _ in 0..100 {
            assert_eq!(left_out_after_failure(&mut backoff), 8, "no overflow");
        }
        backoff.learn(true);
        assert_eq!(left_out_after_failure(&mut backoff), 1);
    }

    #[test]
    fn free_failures_leave_nothing_out_and_are_free_again_after_a_success() {
        let mut backoff = Backoff::new(1, 64);
        for expected in [0, 1, 2] {
            assert_eq!(left_out_after_failure(&mut backoff), expected);
        }
        backoff.learn(true);
        for _ in 0..10 {
            assert_eq!(left_out_after_failure(&mut backoff), 0);
            backoff.learn(true);
        }
    }
}
