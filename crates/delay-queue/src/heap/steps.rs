//! Counts the keys that are looked at one after another, so that a test can tell what a section
//! costs without a clock. Outside of tests it does nothing.

#[cfg(test)]
std::thread_local! {
    static STEPS: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

#[inline]
pub(crate) fn count_one() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// How many since the last call of this, by this thread.
#[cfg(all(test, feature = "std", not(anthill_loom)))]
pub(crate) fn take() -> u64 {
    STEPS.take()
}
