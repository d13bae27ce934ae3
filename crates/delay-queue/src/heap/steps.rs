//! Counts keys that are visited one after another, so that tests can measure the cost of a section
//! without a clock. Does nothing outside of tests.

#[cfg(test)]
std::thread_local! {
    static STEPS: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

#[inline]
pub(crate) fn count_one() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// Returns the count of this thread since its last call.
#[cfg(all(test, feature = "std", not(anthill_loom)))]
pub(crate) fn take() -> u64 {
    STEPS.take()
}
