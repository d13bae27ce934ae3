//! Handling of SIGINT, SIGTERM and SIGPIPE.

/// Calls `stop` with the number of the first SIGINT or SIGTERM. The second one ends the process at
/// once, with the exit status that a shell would report.
///
/// # Errors
/// If the system refuses the handlers or the thread that waits for them.
#[cfg(unix)]
pub(crate) fn watch(stop: impl FnOnce(i32) + Send + 'static) -> std::io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};

    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let wait = move || {
        let mut signals = signals.forever();
        if let Some(first) = signals.next() {
            stop(first);
        }
        if let Some(second) = signals.next() {
            signal_hook::low_level::exit(128 + second);
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(wait)?;
    Ok(())
}

/// Ends the process by SIGPIPE without a message, as filters do when their reader has exited.
#[cfg(unix)]
pub(crate) fn end_by_sigpipe() -> ! {
    // A Rust program starts with SIGPIPE ignored, so the write failed instead of ending the
    // process.
    let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGPIPE);
    std::process::exit(1)
}

/// On other systems, Ctrl-C keeps its default action.
#[cfg(not(unix))]
pub(crate) fn watch(_: impl FnOnce(i32) + Send + 'static) -> std::io::Result<()> {
    Ok(())
}

/// On other systems, a closed reader is an ordinary error.
#[cfg(not(unix))]
pub(crate) fn end_by_sigpipe() -> ! {
    std::process::exit(1)
}
