//! What SIGINT, SIGTERM and SIGPIPE do.

/// Calls `stop` with the number of the first SIGINT or SIGTERM; the second ends the process
/// where it stands, with the status a shell would give it.
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

/// Ends the process as a filter ends whose reader has gone: by SIGPIPE, without a word.
#[cfg(unix)]
pub(crate) fn end_by_sigpipe() -> ! {
    // A Rust program starts with SIGPIPE ignored, so the write failed and nothing ended yet.
    let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGPIPE);
    std::process::exit(1)
}

/// Elsewhere Ctrl-C keeps the meaning the system gives it.
#[cfg(not(unix))]
pub(crate) fn watch(_: impl FnOnce(i32) + Send + 'static) -> std::io::Result<()> {
    Ok(())
}

/// Elsewhere a reader that has gone is a plain failure.
#[cfg(not(unix))]
pub(crate) fn end_by_sigpipe() -> ! {
    std::process::exit(1)
}
